from __future__ import annotations

from core.data.multi30k import MULTI30K


def test_every_split_has_the_published_number_of_words(local_multi30k, tmp_path):
    # The task 1 statistics of https://github.com/multi30k/dataset are counts after tokenisation; raw words are fewer.
    published = {
        "train": {"en": 377_534, "de": 360_706, "fr": 409_845},
        "val": {"en": 13_308, "de": 12_828, "fr": 14_381},
        "test_2016_flickr": {"en": 12_968, "de": 12_103, "fr": 13_988},
        "test_2017_flickr": {"en": 11_376, "de": 10_758, "fr": 12_596},
    }
    assert published.keys() == MULTI30K.splits.keys()
    for split, counts in published.items():
        for language, tokens in counts.items():
            lines, _ = MULTI30K.load_pair(split, language, "fr" if language == "en" else "en", tmp_path)
            assert len(lines) == MULTI30K.splits[split]
            words = sum(len(line.split()) for line in lines)
            assert 0.85 * tokens < words < tokens


def test_languages_are_translations_of_each_other(local_multi30k, tmp_path):
    for tgt in ("de", "fr"):
        for split in MULTI30K.splits:
            src_lines, tgt_lines = MULTI30K.load_pair(split, "en", tgt, tmp_path)
            assert len(src_lines) == len(tgt_lines) == MULTI30K.splits[split]


def test_every_file_is_pinned():
    stems = {f"{split}.{language}" for split in MULTI30K.splits for language in MULTI30K.languages}
    assert MULTI30K.text_sha256.keys() == stems
    assert len(set(MULTI30K.text_sha256.values())) == len(stems) == 12
