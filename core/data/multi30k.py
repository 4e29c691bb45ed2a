"""Multi30k, task 1: one caption of an image in English, translated to German and to French.

Corrections to some English training lines have been proposed since the text was published
(https://github.com/multi30k/dataset/issues/7); the address names a commit, and the checksums a text, without them.
"""

from __future__ import annotations

from core.data.file_corpus import FileCorpus

MULTI30K = FileCorpus(
    name="multi30k",
    task="translation",
    languages=("en", "de", "fr"),
    splits={"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000, "test_2017_flickr": 1_000},
    licence="for research, under the terms of the Flickr30k captions",
    citation="Elliott et al. 2016, Multi30K: Multilingual English-German Image Descriptions; Elliott et al. 2017, "
    "Findings of the Second Shared Task on Multimodal Machine Translation (French, test_2017_flickr)",
    description="image captions of about 13 words, raw text (not tokenised)",
    base_url="https://raw.githubusercontent.com/multi30k/dataset/"
    "c9be912dc05a3ebf9ae5bb5f7f58c1791cda43ab/data/task1/raw",
    text_sha256={
        "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
        "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
        "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
        "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
        "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
        "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
        "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
        "test_2017_flickr.en": "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
        "test_2017_flickr.de": "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
        "test_2017_flickr.fr": "6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6",
    },
)
