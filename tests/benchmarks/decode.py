"""Decoding against MarianMT's generate and CTranslate2, as ratios within one run.

    pip install transformers ctranslate2
    python tests/benchmarks/decode.py [--sizes S M B] [--beams 1 4] [--rounds 5] [--profile]

All contestants have the same weights, get the same 100 sentences in batches of at most 32, and are forced to 24 steps:
23 pieces and the end symbol, which none may put out earlier or later. They take turns, and are compared by the medians
over rounds, in output pieces a second, and in pieces a second of processor time, which other work on the machine
disturbs less; each is followed by its ratios to MarianMT and to CTranslate2. MarianMT gets its products on all threads;
CTranslate2 and this project decode a batch on each. What they put out is compared too, since a fast decoder of another
function would prove nothing.

With random weights the beams lose the greedy path in nearly every sentence, so "ours" shows the most that
`never_below_greedy` can cost; a trained model loses it in some.
`--profile` shows where one batch's time goes on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import torch
from torch import Tensor

from core.attention import MultiHeadAttention
from core.config import DecodeConfig, ModelConfig
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from core.decode import Translator
from core.incremental import DecoderState, IncrementalDecoder
from core.layers import sinusoid
from core.search import beam_search, greedy_search, source_batch
from core.transformer import Transformer

SIZES = {
    "S": ModelConfig(vocab_size=4_000, num_layers=3, d_model=128, d_ff=512, num_heads=4, d_k=32, d_v=32),
    "M": ModelConfig(vocab_size=8_000, num_layers=6, d_model=256, d_ff=1_024, num_heads=8, d_k=32, d_v=32),
    "B": ModelConfig(vocab_size=37_000),
}
NUM_SENTENCES, BATCH_SENTENCES, NUM_STEPS = 100, 32, 24
NUM_POSITIONS = 64

Outputs = list[list[int]]


class ForcedDecoder(IncrementalDecoder):
    """No end before step NUM_STEPS, and nothing else then."""

    def step(self, pieces: Tensor, state: DecoderState) -> Tensor:
        logits = super().step(pieces, state)
        if state.position < NUM_STEPS:
            logits[..., EOS_ID] = -torch.inf
        else:
            logits[..., :EOS_ID] = logits[..., EOS_ID + 1 :] = -torch.inf
        return logits


def build_model(config: ModelConfig) -> Transformer:
    """Random weights; the last norm's gains have random signs, or each piece would be followed by itself for ever."""
    torch.manual_seed(1)
    model = Transformer(config).eval()
    with torch.no_grad():
        gains = model.decoder_layers[-1].feed_forward_norm.norm.weight
        gains.mul_(torch.randint(0, 2, gains.shape) * 2 - 1)
    return model


def ours(model: Transformer, sources: Outputs, beam_size: int, never_below_greedy: bool) -> Callable[[], Outputs]:
    decode = DecodeConfig(
        beam_size=beam_size, never_below_greedy=never_below_greedy, batch_sentences=BATCH_SENTENCES, batch_tokens=10**9
    )
    translator = Translator(ForcedDecoder(model), decode)
    return lambda: [list(hypothesis.pieces) for hypothesis in translator.translate(sources)]


@torch.no_grad()
def marian(model: Transformer, sources: Outputs, beam_size: int) -> Callable[[], Outputs]:
    """MarianMT with our weights: its sinusoid's table replaced by ours, its biases zero where we have none."""
    import transformers

    transformers.logging.set_verbosity_error()
    config = model.config
    peer = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            encoder_layers=config.num_layers,
            decoder_layers=config.num_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=NUM_POSITIONS,
            pad_token_id=PAD_ID,
            bos_token_id=BOS_ID,
            eos_token_id=EOS_ID,
            decoder_start_token_id=BOS_ID,
            forced_eos_token_id=EOS_ID,
        )
    ).eval()

    def copy_attention(theirs: torch.nn.Module, own: MultiHeadAttention) -> None:
        projections = {"q_proj": own.query, "k_proj": own.key, "v_proj": own.value, "out_proj": own.output}
        for name, projection in projections.items():
            getattr(theirs, name).weight.copy_(projection.weight)
            getattr(theirs, name).bias.zero_()

    peer.model.shared.weight.copy_(model.embedding.weight)
    for stack, layers in ((peer.model.encoder, model.encoder_layers), (peer.model.decoder, model.decoder_layers)):
        stack.embed_positions.weight.copy_(sinusoid(NUM_POSITIONS, config.d_model))
        for theirs, own in zip(stack.layers, layers, strict=True):
            copy_attention(theirs.self_attn, own.self_attention)
            theirs.self_attn_layer_norm.load_state_dict(own.self_attention_norm.norm.state_dict())
            if stack is peer.model.decoder:
                copy_attention(theirs.encoder_attn, own.cross_attention)
                theirs.encoder_attn_layer_norm.load_state_dict(own.cross_attention_norm.norm.state_dict())
            theirs.fc1.load_state_dict(own.feed_forward.inner.state_dict())
            theirs.fc2.load_state_dict(own.feed_forward.outer.state_dict())
            theirs.final_layer_norm.load_state_dict(own.feed_forward_norm.norm.state_dict())

    batches = [
        source_batch(sources[start : start + BATCH_SENTENCES], torch.device("cpu"))
        for start in range(0, len(sources), BATCH_SENTENCES)
    ]

    @torch.inference_mode()
    def decode() -> Outputs:
        outputs = []
        for src in batches:
            generated = peer.generate(
                input_ids=src,
                attention_mask=(src != PAD_ID).long(),
                num_beams=beam_size,
                do_sample=False,
                min_new_tokens=NUM_STEPS - 1,
                max_new_tokens=NUM_STEPS,
            )
            outputs += [row[1:NUM_STEPS] for row in generated.tolist()]
        return outputs

    return decode


def ctranslate2_float32(model: Transformer, sources: Outputs, beam_size: int) -> Callable[[], Outputs]:
    """CTranslate2 with our weights, two workers of one thread each (one worker of two threads is slower)."""
    import ctranslate2
    from ctranslate2.specs import TransformerSpec

    config = model.config
    spec = TransformerSpec.from_config(config.num_layers, config.num_heads, pre_norm=False)

    def fill(linear: object, *weights: Tensor, bias: Tensor | None = None) -> None:
        linear.weight = torch.cat(weights).detach().numpy()
        if bias is not None:
            linear.bias = bias.detach().numpy()

    def fill_norm(norm: object, own: torch.nn.LayerNorm) -> None:
        norm.gamma, norm.beta = own.weight.detach().numpy(), own.bias.detach().numpy()

    for embeddings in (spec.encoder.embeddings[0], spec.decoder.embeddings, spec.decoder.projection):
        fill(embeddings, model.embedding.weight)
    for stack, layers in ((spec.encoder, model.encoder_layers), (spec.decoder, model.decoder_layers)):
        stack.position_encodings.encodings = sinusoid(NUM_POSITIONS, config.d_model).float().numpy()
        for theirs, own in zip(stack.layer, layers, strict=True):
            attention = own.self_attention
            fill(theirs.self_attention.linear[0], attention.query.weight, attention.key.weight, attention.value.weight)
            fill(theirs.self_attention.linear[1], attention.output.weight)
            fill_norm(theirs.self_attention.layer_norm, own.self_attention_norm.norm)
            if stack is spec.decoder:
                attention = own.cross_attention
                fill(theirs.attention.linear[0], attention.query.weight)
                fill(theirs.attention.linear[1], attention.key.weight, attention.value.weight)
                fill(theirs.attention.linear[2], attention.output.weight)
                fill_norm(theirs.attention.layer_norm, own.cross_attention_norm.norm)
            inner, outer = own.feed_forward.inner, own.feed_forward.outer
            fill(theirs.ffn.linear_0, inner.weight, bias=inner.bias)
            fill(theirs.ffn.linear_1, outer.weight, bias=outer.bias)
            fill_norm(theirs.ffn.layer_norm, own.feed_forward_norm.norm)
    tokens = ["<pad>", "<s>", "</s>", *(str(piece) for piece in range(EOS_ID + 1, config.vocab_size))]
    spec.config.unk_token = tokens[PAD_ID]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    spec.optimize()
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder, device="cpu", compute_type="float32", inter_threads=torch.get_num_threads(), intra_threads=1
        )
    piece_of = {token: piece for piece, token in enumerate(tokens)}
    texts = [[tokens[piece] for piece in (*source, EOS_ID)] for source in sources]

    def decode() -> Outputs:
        results = translator.translate_batch(
            texts,
            max_batch_size=BATCH_SENTENCES,
            beam_size=beam_size,
            min_decoding_length=NUM_STEPS - 1,
            max_decoding_length=NUM_STEPS - 1,
        )
        return [[piece_of[token] for token in result.hypotheses[0]] for result in results]

    return decode


def profile(model: Transformer, sources: Outputs, beam_size: int) -> None:
    """Where the time of one batch goes on one thread."""
    decoder, src = ForcedDecoder(model), source_batch(sources[:BATCH_SENTENCES], torch.device("cpu"))
    search = beam_search if beam_size > 1 else greedy_search
    config = DecodeConfig(beam_size=beam_size, never_below_greedy=False)
    search(decoder, src, config)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        search(decoder, src, config)
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=20, max_name_column_width=40))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.sizes:
        model = build_model(SIZES[name])
        generator = torch.Generator().manual_seed(1)
        lengths = sorted(torch.randint(10, 31, (NUM_SENTENCES,), generator=generator).tolist(), reverse=True)
        sources = [torch.randint(3, SIZES[name].vocab_size, (n,), generator=generator).tolist() for n in lengths]
        for beam_size in arguments.beams:
            contestants = {
                "MarianMT": marian(model, sources, beam_size),
                "CTranslate2": ctranslate2_float32(model, sources, beam_size),
                "ours": ours(model, sources, beam_size, never_below_greedy=True),
            }
            if beam_size > 1:
                contestants["ours, beams alone"] = ours(model, sources, beam_size, never_below_greedy=False)
            seconds: dict[str, list[tuple[float, float]]] = {contestant: [] for contestant in contestants}
            outputs: dict[str, Outputs] = {}
            for round_number in range(arguments.rounds + 1):
                for contestant, decode in contestants.items():
                    started = time.perf_counter(), time.process_time()
                    outputs[contestant] = decode()
                    if round_number:  # the first round warms up
                        seconds[contestant].append((time.perf_counter() - started[0], time.process_time() - started[1]))
            rates = {
                contestant: [NUM_SENTENCES * NUM_STEPS / statistics.median(kind) for kind in zip(*rounds, strict=True)]
                for contestant, rounds in seconds.items()
            }
            for contestant, both in rates.items():
                same = sum(a == b for a, b in zip(outputs[contestant], outputs["ours"], strict=True))
                print(f"{name} beam {beam_size} {contestant:17}", end="")
                for kind, unit in enumerate(("pieces/s", "pieces/s of processor")):
                    of_marian, of_ctranslate2 = (both[kind] / rates[peer][kind] for peer in ("MarianMT", "CTranslate2"))
                    print(f" {both[kind]:7,.0f} {unit}: {of_marian:5.2f} {of_ctranslate2:5.2f}", end=";")
                print(f" {same} of {NUM_SENTENCES} outputs as ours", flush=True)
            if arguments.profile:
                profile(model, sources, beam_size)


if __name__ == "__main__":
    main()
