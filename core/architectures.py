"""From sizes to a model, and from a model to the decoder that search drives: the one place that lists architectures."""

from __future__ import annotations

from core.architecture_config import (
    ArchitectureConfig,
    ByteNetConfig,
    ConvS2SConfig,
    ExtendedNeuralGPUConfig,
    FeedForwardConfig,
    MemoryNetworkConfig,
    ModelConfig,
    RecurrentConfig,
    RecurrentLabellerConfig,
)
from core.baselines.bytenet import ByteNet, ByteNetDecoder
from core.baselines.convs2s import ConvS2S, ConvS2SDecoder
from core.baselines.labellers import FeedForwardLabeller, LabelDecoder, MemoryNetwork, RecurrentLabeller
from core.baselines.neural_gpu import ExtendedNeuralGPU, NeuralGPUDecoder
from core.baselines.recurrent import RecurrentDecoder, RecurrentModel
from core.incremental import IncrementalDecoder
from core.search import StepDecoder
from core.sequence_model import SequenceModel
from core.transformer import Transformer

_MODELS: dict[type[ArchitectureConfig], type[SequenceModel]] = {
    ModelConfig: Transformer,
    ConvS2SConfig: ConvS2S,
    ByteNetConfig: ByteNet,
    ExtendedNeuralGPUConfig: ExtendedNeuralGPU,
    RecurrentConfig: RecurrentModel,
    FeedForwardConfig: FeedForwardLabeller,
    RecurrentLabellerConfig: RecurrentLabeller,
    MemoryNetworkConfig: MemoryNetwork,
}
_DECODERS: dict[type[SequenceModel], type[StepDecoder]] = {
    Transformer: IncrementalDecoder,
    ConvS2S: ConvS2SDecoder,
    ByteNet: ByteNetDecoder,
    ExtendedNeuralGPU: NeuralGPUDecoder,
    RecurrentModel: RecurrentDecoder,
    FeedForwardLabeller: LabelDecoder,
    RecurrentLabeller: LabelDecoder,
    MemoryNetwork: LabelDecoder,
}


def build_model(config: ArchitectureConfig) -> SequenceModel:
    """A new model of these sizes, its weights drawn from torch's global generator: seed it first."""
    return _MODELS[type(config)](config)


def build_decoder(model: SequenceModel) -> StepDecoder:
    """What decodes step by step with the weights that `model` has now; the model must be in eval mode."""
    return _DECODERS[type(model)](model)
