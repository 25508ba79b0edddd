"""Estimators inside scikit-learn's pipelines, for skl2onnx: what it needs to convert them.

    from sparsenam.interop.onnx_pipelines import register_skl2onnx

    register_skl2onnx()
    skl2onnx.to_onnx(pipeline, X[:1].astype(np.float64))

Inputs of float64 make a graph in double precision, those of float32 one in single.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from sparsenam.errors import describe
from sparsenam.estimators.base import AdditiveEstimator
from sparsenam.estimators.classification import RandomFeatureSNAMClassifier, SNAMClassifier
from sparsenam.estimators.regression import RandomFeatureSNAMRegressor, SNAMRegressor
from sparsenam.estimators.survival import SNAMSurvival
from sparsenam.export.portable import ExportError, PortableModel

if TYPE_CHECKING:
    from skl2onnx.common.data_types import TensorType
    from skl2onnx.typed import ModelComponentContainer, Operator, Scope

    from sparsenam.export.targets.onnx_effects import GraphBuilder

KINDS = (SNAMRegressor, RandomFeatureSNAMRegressor, SNAMSurvival)
CLASSIFIERS = (SNAMClassifier, RandomFeatureSNAMClassifier)


def register_skl2onnx() -> None:
    """Make skl2onnx know all estimators; do it once, before `to_onnx`."""
    try:
        from skl2onnx import update_registered_converter
    except ModuleNotFoundError as error:
        got, remedy = f"an environment without {error.name}", 'pip install skl2onnx "sparsenam[onnx]"'
        raise ExportError(describe("register_skl2onnx", "skl2onnx", got, remedy)) from error
    for kind in KINDS:
        update_registered_converter(kind, f"Sparsenam{kind.__name__}", _shapes_of_regressor, _convert)
    options = {"zipmap": [True, False, "columns"], "nocl": [True, False], "output_class_labels": [False, True]}
    for kind in CLASSIFIERS:
        update_registered_converter(kind, f"Sparsenam{kind.__name__}", _shapes_of_classifier, _convert, options=options)


def _shapes_of_regressor(operator: Operator) -> None:
    operator.outputs[0].type = _real(operator)(shape=[None, len(_model(operator).intercept)])


def _shapes_of_classifier(operator: Operator) -> None:
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    model = _model(operator)
    texts = any(isinstance(label, str) for label in model.classes) and model.task == "classes"
    label = StringTensorType if texts else Int64TensorType
    operator.outputs[0].type = label(shape=[None] if model.task == "classes" else [None, len(model.classes)])
    operator.outputs[1].type = _real(operator)(shape=[None, len(model.classes)])


def _estimator(operator: Operator) -> AdditiveEstimator:
    assert isinstance(operator.raw_operator, AdditiveEstimator)
    return operator.raw_operator


def _model(operator: Operator) -> PortableModel:
    return _estimator(operator).portable()


def _real(operator: Operator) -> type[TensorType]:
    """Return skl2onnx's type of real numbers: single precision where an input is."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    single = any(isinstance(variable.type, FloatTensorType) for variable in operator.inputs)
    return FloatTensorType if single else DoubleTensorType


def _convert(scope: Scope, operator: Operator, container: ModelComponentContainer) -> None:
    """Add the nodes of an estimator to the graph of a pipeline."""
    from onnx import TensorProto, helper, numpy_helper

    from sparsenam.export.targets.code_parts import HALVES, check_texts
    from sparsenam.export.targets.onnx_effects import GraphBuilder, InputCells
    from sparsenam.export.targets.onnx_graph import LEARNING_OPSET, answers

    model = _model(operator)
    check_texts("onnx", model, HALVES, "names and levels in UTF-8")
    single = _real(operator).__name__.startswith("Float")
    prefix = f"{scope.get_unique_variable_name('sparsenam')}_"
    graph = GraphBuilder(prefix, "float32" if single else "double")
    inputs, texts = _inputs(graph, model, operator)
    answers(graph, model, InputCells(graph, model, inputs, texts), explained=False, prefix=prefix)
    outputs = [variable.full_name for variable in operator.outputs]
    if model.task in ("classes", "labels"):
        if not single and container.get_options(operator.raw_operator, {"zipmap": True})["zipmap"] is True:
            got, remedy = "a ZipMap, which is single", 'say options={"zipmap": False} or "columns" to to_onnx'
            raise ExportError(describe("skl2onnx", "probabilities in double precision", got, remedy))
        if any(isinstance(label, float) for label in model.classes):
            expected, got = "classes that are texts or whole numbers", f"the numbers {list(model.classes)}"
            raise ExportError(describe("skl2onnx", expected, got, "use export, or fit with other labels"))
        texts_out = any(isinstance(label, str) for label in model.classes) and model.task == "classes"
        graph.op(
            "Cast", prefix + "prediction", to=TensorProto.STRING if texts_out else TensorProto.INT64, output=outputs[0]
        )
        graph.op("Identity", prefix + "probabilities", output=outputs[1])
    else:
        shape = graph.constant([-1, len(model.intercept)], np.int64)
        graph.op("Reshape", prefix + "prediction", shape, output=outputs[0])
    for constant in graph.constants:
        values = numpy_helper.to_array(constant).ravel().tolist()
        container.add_initializer(constant.name, constant.data_type, list(constant.dims), values)
    for node in graph.nodes:
        container.add_node(
            node.op_type,
            list(node.input),
            list(node.output),
            op_domain=node.domain,
            op_version=LEARNING_OPSET if node.domain else None,
            name=scope.get_unique_operator_name(node.op_type),
            **{each.name: helper.get_attribute_value(each) for each in node.attribute},
        )


def _inputs(graph: GraphBuilder, model: PortableModel, operator: Operator) -> tuple[list[str], list[bool]]:
    """Return the columns that a model reads out of the variables that come before it, and which of them are texts."""
    from skl2onnx.common.data_types import StringTensorType

    places = {column.name: place for place, column in enumerate(_estimator(operator).encoder_.columns)}
    variables = operator.inputs
    widths = [1 if len(variables) > 1 and not each.type.shape[1:] else each.type.shape[1] for each in variables]
    starts = list(accumulate((width or 0 for width in widths[:-1]), initial=0))
    inputs: list[str] = []
    texts: list[bool] = []
    for column in model.columns:
        place = places[column.name]
        at = max(index for index, start in enumerate(starts) if start <= place)
        name = variables[at].full_name
        text = isinstance(variables[at].type, StringTensorType)
        if text and column.kind != "category":
            got, remedy = f"texts for the {column.kind} {column.name!r}", "convert them in an earlier step"
            raise ExportError(describe("skl2onnx", "numbers where the model reads numbers", got, remedy))
        if widths[at] != 1:
            name = graph.op("Gather", name, graph.constant([place - starts[at]], np.int64), axis=1)
        inputs.append(name if text else graph.op("Cast", name, to=graph.real_type))
        texts.append(text)
    return inputs or [variables[0].full_name], texts
