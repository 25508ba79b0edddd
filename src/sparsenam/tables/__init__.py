"""Tables: a DataFrame becomes numbers, once."""
