"""Texts of the C header that depend on the model's task and link; P_ and U_ stand for the prefix."""

from __future__ import annotations

# words of C and C++, and macros that are written small
RESERVED = """
alignas alignof and and_eq asm assert atomic auto bitand bitor bool break case catch char char16_t char32_t
char8_t class co_await co_return co_yield compl complex concept const const_cast consteval constexpr constinit
continue decltype default delete do double dynamic_cast else enum errno explicit export extern false far float
for friend goto i386 if imaginary inline int interface linux long mutable namespace near new noexcept noreturn
not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof small static static_assert static_cast stderr stdin stdout struct switch template
this thread_local throw true try typedef typeid typename typeof union unix unsigned using virtual void
volatile wchar_t while xor xor_eq
"""

OPENING = """/* A sparse additive model in C99 (and C++), written by WRITTEN_BY:
   static functions, constant tables, no allocation.

   Fill a row, each number as a double and each category by a look-up such as P_text_name("level"), and call

       P_scores(&row, scores)    the sum of all effects and the intercept, U_OUTPUTS numbers
       P_means(&row, means)      expected values or probabilities, U_OUTPUTS numbers
       P_predict(&row)           the prediction, as described beside it
       P_effects(&row, effects)  what each column and then each pair adds, U_EFFECTS times U_OUTPUTS numbers; their
                                 names are those of P_effect_name(0), P_effect_name(1), ...

   P_missing_row() is a row in which every cell is missing. Rows with an infinite number have NAN as their score. The
   scores are those of the model to the bit where double is evaluated as double (not on the x87 unit). */
"""

LINKS = {
    "identity": "    (void)scores;",
    "log": """    int k;
    for (k = 0; k < U_OUTPUTS; k++) scores[k] = exp(scores[k] > 600.0 ? 600.0 : scores[k]);""",
    "logit": """    int k;
    for (k = 0; k < U_OUTPUTS; k++) scores[k] = 0.5 * (1.0 + tanh(0.5 * scores[k]));""",
    "softmax": """    double highest = scores[0], total = 0.0;
    int k;
    for (k = 1; k < U_OUTPUTS; k++) highest = scores[k] > highest ? scores[k] : highest;
    for (k = 0; k < U_OUTPUTS; k++) total += scores[k] = exp(scores[k] - highest);
    for (k = 0; k < U_OUTPUTS; k++) scores[k] /= total;""",
}

SCORES = """/* The scores of a row, U_OUTPUTS numbers. */
static inline void P_scores(const P_row *row, double *scores)
{
INTERCEPT
    int k;
    for (k = 0; k < U_OUTPUTS; k++) scores[k] = 0.0;
    ADDED;
    for (k = 0; k < U_OUTPUTS; k++) scores[k] += intercept[k];
}

/* What each column and then each pair adds, U_OUTPUTS numbers each; with P_intercept they add up to the scores. */
static inline void P_effects(const P_row *row, double *effects)
{
    int k;
    for (k = 0; k < U_EFFECTS * U_OUTPUTS; k++) effects[k] = 0.0;
    PARTS;
}

static inline double P_intercept(int output)
{
INTERCEPT
    return intercept[output];
}

/* From scores to means, in place. */
static inline void P_link(double *scores)
{
LINK
}

/* The cumulative hazard up to a time of a row whose score is 0; 0 where the model is not one of survival times. */
static inline double P_baseline(double time)
{
    TIMES;
    HAZARDS;
    int k = EVENTS;
    while (k > 0 && times[k - 1] > time) k--;
    return k > 0 ? hazards[k - 1] : 0.0;
}"""

AFTER_SCORES = {
    "regression": """
/* The expected value. */
static inline double P_predict(const P_row *row)
{
    double mean;
    P_means(row, &mean);
    return mean;
}
""",
    "several": """
/* The expected values, U_OUTPUTS numbers. */
static inline void P_predict(const P_row *row, double *means)
{
    P_means(row, means);
}
""",
    "classes": """
/* The probabilities of the classes, U_CLASSES numbers. */
static inline void P_probabilities(const P_row *row, double *shares)
{
    P_means(row, shares + (U_CLASSES - U_OUTPUTS));
    if (U_OUTPUTS < U_CLASSES) shares[0] = 1.0 - shares[1];
}

/* The place of the most probable class, whose name is P_class_name(place); -1 where an infinite number leaves none. */
static inline int P_predict(const P_row *row)
{
    double shares[U_CLASSES];
    int best = 0, k;
    P_probabilities(row, shares);
    for (k = 1; k < U_CLASSES; k++) best = shares[k] > shares[best] ? k : best;
    return isnan(shares[0]) ? -1 : best;
}
""",
    "labels": """
/* The probabilities of the labels, U_CLASSES numbers. */
static inline void P_probabilities(const P_row *row, double *shares)
{
    P_means(row, shares);
}

/* Whether each label is probable, U_CLASSES times 0 or 1; -1 where an infinite number leaves no answer. */
static inline void P_predict(const P_row *row, int *labels)
{
    double shares[U_CLASSES];
    int k;
    P_means(row, shares);
    for (k = 0; k < U_CLASSES; k++) labels[k] = isnan(shares[k]) ? -1 : shares[k] > 0.5;
}
""",
    "survival": """
/* The log hazard ratio to the baseline. */
static inline double P_predict(const P_row *row)
{
    double score;
    P_scores(row, &score);
    return score;
}

/* The probability that the event has not come by a time; the curve is constant after the last event. */
static inline double P_survival(const P_row *row, double time)
{
    double score = P_predict(row);
    return exp(-P_baseline(time) * exp(score > 600.0 ? 600.0 : score));
}
""",
}
