"""The embedded corpus: right German and French, gold analyses that fit the words, splits that can be learnt from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from random import Random

import pytest

from core.data.grammar import DEFAULT_SIZES, LANGUAGES, Example, choices, generate_splits, lexicon
from core.data.grammar.corpus import MAX_TOKENS, MIN_TOKENS, build_example, generate_examples
from core.data.grammar.derivation import (
    Adjunct,
    Clause,
    Coordination,
    Gap,
    Means,
    NounPhrase,
    Predicate,
    Pronoun,
    Referent,
    Sentence,
    Subordinate,
)
from core.data.grammar.words import Adjective, Adverb, Modal, Noun, Preposition, Verb
from core.data.trees import Tree

_VERBS = (*lexicon.TRANSITIVE, *lexicon.INTRANSITIVE, *lexicon.MOTION, *lexicon.DITRANSITIVE, *lexicon.REPORTING)
_PREPOSITIONS = {entry.english: entry for entry in (*lexicon.PLACES, *lexicon.COMPANIONS, *lexicon.TIMES)}


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Example]]:
    return generate_splits()


@pytest.fixture(scope="module")
def train(splits: dict[str, list[Example]]) -> list[Example]:
    return splits["train"]


def noun(word: str) -> Noun:
    return next(entry for entry in (*lexicon.NOUNS, *lexicon.NAMES) if entry.english == word)


def adjective(word: str) -> Adjective:
    return next(entry for entry in lexicon.ADJECTIVES if entry.english == word)


def verb(words: str) -> Verb:
    def name(entry: Verb) -> str:
        parts = (entry.english.base, entry.english.particle, entry.english.preposition)
        return " ".join(part for part in parts if part)

    return next(entry for entry in _VERBS if name(entry) == words)


def adverb(word: str) -> Adverb:
    return next(entry for group in lexicon.ADVERBS.values() for entry in group if entry.english == word)


def modal(word: str) -> Modal:
    return next(entry for entry in lexicon.MODALS if entry.english == word)


def phrase(determiner, *words: str, plural: bool = False, **extras) -> NounPhrase:
    """`phrase("the", "old", "man")`; a name stands alone with the determiner "none"."""
    *adjectives, head = words
    return NounPhrase(Referent(noun(head), plural), determiner, tuple(adjective(word) for word in adjectives), **extras)


def place(preposition: str, target: NounPhrase) -> Adjunct:
    return Adjunct(_PREPOSITIONS[preposition], target)


def lines(clause: Clause | Sentence) -> tuple[str, str, str]:
    example = build_example(clause if isinstance(clause, Sentence) else Sentence(clause))
    return example.text("en"), example.text("de"), example.text("fr")


# Sentence triples written by hand. Each derivation says what is meant; the three lines are what a speaker would write.


def _its_in_a_later_clause() -> Sentence:
    law = phrase("the", "law")
    application = phrase(Pronoun(law.referent), "application")
    second = Clause(application, lexicon.BE, "future", predicate=Predicate(adjective("difficult")))
    return Sentence(Clause(law, lexicon.BE, predicate=Predicate(adjective("old"))), "but", second)


def _relative_clause_with_preceding_object() -> Clause:
    car = Referent(noun("car"))
    bought = Clause(phrase("the", "man"), verb("buy"), "perfect", object=Gap(car))
    subject = NounPhrase(car, "the", (), relative=bought)
    return Clause(subject, lexicon.BE, predicate=Predicate(adjective("expensive")))


def _prefix_in_a_relative_clause() -> Clause:
    boy = Referent(noun("boy"), plural=True)
    getting_up = Clause(Gap(boy), verb("get up"), frequency=adverb("rarely"))
    return Clause(Pronoun(None, plural=True), verb("know"), object=NounPhrase(boy, "the", relative=getting_up))


def _dative_relative_pronoun() -> Clause:
    child = Referent(noun("child"), plural=True)
    helping = Clause(Pronoun(None), verb("help"), "past", object=Gap(child))
    return Clause(NounPhrase(child, "many", relative=helping), verb("laugh"))


def _fronted_subordinate_clause() -> Clause:
    woman = phrase("the", "woman")
    arriving = Clause(woman, verb("arrive"), "past")
    return Clause(
        Pronoun(woman.referent),
        verb("look for"),
        "past",
        object=phrase(Pronoun(woman.referent), "key"),
        subordinate=Subordinate(lexicon.WHEN, arriving, fronted=True),
    )


def _because_with_pronoun_object() -> Clause:
    company, machine = phrase("the", "company"), phrase("the", "machine")
    reason = Clause(Pronoun(company.referent), verb("repair"), "perfect", object=Pronoun(machine.referent))
    return Clause(company, verb("sell"), "perfect", object=machine, subordinate=Subordinate(lexicon.BECAUSE, reason))


def _saying_that() -> Clause:
    content = Clause(phrase("this", "train"), verb("leave"), "future", time=adverb("tomorrow"))
    return Clause(phrase("none", "Anna"), verb("say"), content=content)


def _making_easier() -> Clause:
    means = Means(phrase("the", "job", complement=phrase("the", "poor", "farmer", plural=True)), _more("difficult"))
    return Clause(phrase("the", "government"), verb("change"), object=phrase("a", "law"), means=means)


def _more(word: str) -> Predicate:
    return Predicate(adjective(word), comparative=True)


GOLDEN = [
    (
        lambda: Clause(phrase("the", "old", "teacher"), verb("sleep")),
        "The old teacher sleeps.",
        "Der alte Lehrer schläft.",
        "Le vieux professeur dort.",
    ),
    (
        lambda: Clause(phrase("the", "old", "teacher"), verb("open"), object=phrase("a", "new", "window")),
        "The old teacher opens a new window.",
        "Der alte Lehrer macht ein neues Fenster auf.",
        "Le vieux professeur ouvre une nouvelle fenêtre.",
    ),
    (
        lambda: Clause(
            phrase("the", "woman", plural=True),
            verb("paint"),
            "perfect",
            object=phrase("the", "beautiful", "house", complement=phrase("the", "king")),
        ),
        "The women have painted the beautiful house of the king.",
        "Die Frauen haben das schöne Haus des Königs gemalt.",
        "Les femmes ont peint la belle maison du roi.",
    ),
    (
        lambda: Clause(
            phrase("a", "rich", "man"), verb("buy"), "past", object=phrase("bare", "old", "car", plural=True),
            front=adverb("yesterday"),
        ),
        "Yesterday a rich man bought old cars.",
        "Gestern kaufte ein reicher Mann alte Autos.",
        "Hier, un homme riche a acheté de vieilles voitures.",
    ),
    (
        lambda: Clause(
            Pronoun(None), verb("buy"), negation="not", object=phrase("a", "red", "bicycle")
        ),
        "I do not buy a red bicycle.",
        "Ich kaufe kein rotes Fahrrad.",
        "Je n'achète pas de vélo rouge.",
    ),
    (
        lambda: Clause(
            phrase("the", "sister", plural=True), verb("go"), "past", negation="never",
            adjunct=Adjunct(lexicon.GOAL, phrase("the", "market")),
        ),
        "The sisters never went to the market.",
        "Die Schwestern gingen nie zum Markt.",
        "Les sœurs ne sont jamais allées au marché.",
    ),
    (
        lambda: Clause(
            phrase("the", "doctor"), verb("give"), "past", object=phrase("the", "book"),
            recipient=phrase("the", "student"),
        ),
        "The doctor gave the book to the student.",
        "Der Arzt gab dem Studenten das Buch.",
        "Le médecin a donné le livre à l'étudiant.",
    ),
    (
        lambda: Clause(
            phrase("every", "nurse"), verb("work"), modal=modal("must"),
            adjunct=place("in", phrase("the", "old", "hospital")),
        ),
        "Every nurse must work in the old hospital.",
        "Jede Krankenschwester muss im alten Krankenhaus arbeiten.",
        "Chaque infirmière doit travailler dans le vieil hôpital.",
    ),
    (
        lambda: Clause(
            phrase("the", "boy"), verb("turn off"), modal=modal("want"), negation="not",
            object=phrase("this", "lamp"),
        ),
        "The boy does not want to turn this lamp off.",
        "Der Junge will diese Lampe nicht ausschalten.",
        "Le garçon ne veut pas éteindre cette lampe.",
    ),
    (
        _its_in_a_later_clause,
        "The law is old, but its application will be difficult.",
        "Das Gesetz ist alt, aber seine Anwendung wird schwierig sein.",
        "La loi est vieille, mais son application sera difficile.",
    ),
    (
        _relative_clause_with_preceding_object,
        "The car that the man has bought is expensive.",
        "Das Auto, das der Mann gekauft hat, ist teuer.",
        "La voiture que l'homme a achetée est chère.",
    ),
    (
        _prefix_in_a_relative_clause,
        "We know the boys who rarely get up.",
        "Wir kennen die Jungen, die selten aufstehen.",
        "Nous connaissons les garçons qui se lèvent rarement.",
    ),
    (
        _dative_relative_pronoun,
        "Many children who I helped laugh.",
        "Viele Kinder, denen ich half, lachen.",
        "Beaucoup d'enfants que j'ai aidés rient.",
    ),
    (
        _fronted_subordinate_clause,
        "When the woman arrived, she looked for her key.",
        "Als die Frau ankam, suchte sie ihren Schlüssel.",
        "Quand la femme est arrivée, elle a cherché sa clé.",
    ),
    (
        _because_with_pronoun_object,
        "The company has sold the machine because it has repaired it.",
        "Die Firma hat die Maschine verkauft, weil sie sie repariert hat.",
        "L'entreprise a vendu la machine parce qu'elle l'a réparée.",
    ),
    (
        _saying_that,
        "Anna says that this train will leave tomorrow.",
        "Anna sagt, dass dieser Zug morgen abfahren wird.",
        "Anna dit que ce train partira demain.",
    ),
    (
        lambda: Clause(
            phrase("this", "law"), lexicon.MAKE,
            object=phrase("the", "registration", complement=phrase("the", "student", plural=True)),
            predicate=_more("difficult"),
        ),
        "This law makes the registration of the students more difficult.",
        "Dieses Gesetz macht die Anmeldung der Studenten schwieriger.",
        "Cette loi rend l'inscription des étudiants plus difficile.",
    ),
    (
        _making_easier,
        "The government changes a law by making the job of the poor farmers more difficult.",
        "Die Regierung ändert ein Gesetz, indem sie die Arbeit der armen Bauern schwieriger macht.",
        "Le gouvernement change une loi en rendant le travail des agriculteurs pauvres plus difficile.",
    ),
    (
        lambda: Clause(
            phrase("the", "king"), lexicon.BE, "past",
            predicate=Predicate(adjective("happy"), comparative=True, standard=phrase("the", "friend")),
        ),
        "The king was happier than the friend.",
        "Der König war glücklicher als der Freund.",
        "Le roi était plus heureux que l'ami.",
    ),
    (
        lambda: Clause(
            Coordination(phrase("none", "Julia"), phrase("the", "queen")), verb("come back"), "perfect",
            front=adverb("unfortunately"),
        ),
        "Unfortunately, Julia and the queen have come back.",
        "Leider sind Julia und die Königin zurückgekommen.",
        "Malheureusement, Julia et la reine sont revenues.",
    ),
    (
        lambda: Clause(
            Pronoun(None, plural=True), verb("talk about"), "past", manner=adverb("quietly"),
            object=phrase("the", "journey", complement=phrase("the", "neighbour", plural=True)),
            adjunct=place("during", phrase("the", "debate")),
        ),
        "We talked about the journey of the neighbours quietly during the debate.",
        "Wir sprachen leise über die Reise der Nachbarn während der Debatte.",
        "Nous avons parlé doucement du voyage des voisins pendant le débat.",
    ),
    (
        lambda: Clause(Pronoun(None), verb("hurry"), "past"),
        "I hurried.",
        "Ich beeilte mich.",
        "Je me suis dépêché.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("derivation", "english", "german", "french"), GOLDEN, ids=[case[1] for case in GOLDEN])
def test_hand_written_triples(derivation, english: str, german: str, french: str) -> None:
    assert lines(derivation()) == (english, german, french)


def _four_cases(determiner: str, head: str, plural: bool = False) -> tuple[str, ...]:
    """The phrase in the German nominative, accusative, dative and genitive, as words joined by spaces."""

    def target() -> NounPhrase:
        return phrase(determiner, "old", head, plural=plural)

    anna = phrase("none", "Anna")
    nominative = build_example(Sentence(Clause(target(), verb("sleep")))).german[:-2]
    accusative = build_example(Sentence(Clause(anna, verb("see"), object=target()))).german[2:-1]
    dative = build_example(Sentence(Clause(anna, verb("help"), object=target()))).german[2:-1]
    owned = phrase("the", "house", complement=target())
    genitive = build_example(Sentence(Clause(owned, lexicon.BE, predicate=_more("big")))).german[2:-3]
    cases = (nominative, accusative, dative, genitive)
    return tuple(" ".join((words[0].lower(), *words[1:])) for words in cases)


@pytest.mark.parametrize(
    ("determiner", "head", "plural", "declension"),
    [
        ("the", "man", False, "der alte Mann, den alten Mann, dem alten Mann, des alten Mannes"),
        ("the", "woman", False, "die alte Frau, die alte Frau, der alten Frau, der alten Frau"),
        ("the", "child", False, "das alte Kind, das alte Kind, dem alten Kind, des alten Kindes"),
        ("a", "man", False, "ein alter Mann, einen alten Mann, einem alten Mann, eines alten Mannes"),
        ("a", "woman", False, "eine alte Frau, eine alte Frau, einer alten Frau, einer alten Frau"),
        ("a", "child", False, "ein altes Kind, ein altes Kind, einem alten Kind, eines alten Kindes"),
        ("this", "boy", False, "dieser alte Junge, diesen alten Jungen, diesem alten Jungen, dieses alten Jungen"),
        ("the", "man", True, "die alten Männer, die alten Männer, den alten Männern, der alten Männer"),
        ("many", "child", True, "viele alte Kinder, viele alte Kinder, vielen alten Kindern, vieler alter Kinder"),
        ("the", "singer", True, "die alten Sängerinnen, die alten Sängerinnen, den alten Sängerinnen, "
         "der alten Sängerinnen"),
    ],
)  # fmt: skip
def test_german_declension_is_that_of_grammar_books(determiner, head, plural, declension) -> None:
    assert ", ".join(_four_cases(determiner, head, plural)) == declension


@pytest.mark.parametrize(
    ("derivation", "french"),
    [
        (("a", "old", "man"), "un vieil homme"),
        (("this", "new", "hotel"), "ce nouvel hôtel"),
        (("this", "hotel"), "cet hôtel"),
        (("the", "beautiful", "red", "coat"), "le beau manteau rouge"),
        (("the", "white", "bottle"), "la bouteille blanche"),
        (("a", "dangerous", "idea"), "une idée dangereuse"),
    ],
)
def test_french_adjectives_agree_and_find_their_place(derivation: tuple[str, ...], french: str) -> None:
    clause = Clause(phrase(*derivation), lexicon.BE, predicate=Predicate(adjective("big")))
    words = build_example(Sentence(clause)).text("fr").split(" ")
    assert " ".join(words[:-2]).lower() == french


@pytest.mark.parametrize(
    ("determiner", "plural", "french"),
    [
        ("the", False, "de l'ami"),
        ("the", True, "des amis"),
        ("a", False, "d'un ami"),
        ("many", True, "de beaucoup d'amis"),
    ],
)
def test_french_de_contracts_and_elides(determiner: str, plural: bool, french: str) -> None:
    clause = Clause(Pronoun(None), verb("talk about"), object=phrase(determiner, "friend", plural=plural))
    assert build_example(Sentence(clause)).text("fr") == f"Je parle {french}."


def _ancestors(example: Example, index: int) -> Iterator[int]:
    for _ in range(len(example.heads)):
        index = example.heads[index]
        if index == -1:
            return
        yield index
    pytest.fail(f"cycle in the heads of {example.text('en')!r}")


def _subtrees(tree: Tree) -> Iterator[Tree]:
    yield tree
    for child in tree.children:
        if isinstance(child, Tree):
            yield from _subtrees(child)


def test_tree_leaves_are_the_english_tokens(train: list[Example]) -> None:
    for example in train:
        assert tuple(example.tree.leaves()) == example.english


def test_tree_has_penn_labels_only(train: list[Example]) -> None:
    phrases = {"S", "NP", "VP", "PP", "SBAR", "ADJP", "ADVP", "WHNP", "PRT"}
    tags = "DT NN NNS NNP JJ JJR RB RBR RP IN TO CC CD PRP PRP$ MD VB VBD VBG VBN VBP VBZ WP WDT WRB . ,"
    for example in train:
        for node in _subtrees(example.tree):
            assert node.label in (phrases if isinstance(node.children[0], Tree) else tags.split())


def test_tree_prints_as_brackets() -> None:
    example = build_example(Sentence(Clause(phrase("the", "child"), verb("wake up"))))
    assert str(example.tree) == "(S (NP (DT The) (NN child)) (VP (VBZ wakes) (PRT (RP up))) (. .))"


def test_heads_form_one_tree_with_one_root(train: list[Example]) -> None:
    for example in train:
        assert [example.heads.count(-1), example.relations.count("root")] == [1, 1]
        assert example.relations[example.heads.index(-1)] == "root"
        for index in range(len(example.heads)):
            assert example.heads[index] == -1 or example.heads.index(-1) in _ancestors(example, index)


def test_constituents_are_dependency_subtrees(train: list[Example]) -> None:
    """Every constituent has exactly one word whose governor lies outside: trees and arcs tell one story."""

    def check(tree: Tree, start: int, example: Example) -> int:
        end = start
        for child in tree.children:
            end = check(child, end, example) if isinstance(child, Tree) else end + 1
        outside = [index for index in range(start, end) if not start <= example.heads[index] < end]
        assert len(outside) == 1, (example.text("en"), tree)
        return end

    for example in train[:2000]:
        check(example.tree, 0, example)


def test_arcs_worked_by_hand() -> None:
    example = build_example(Sentence(_fronted_subordinate_clause()))
    # When the woman arrived , she looked for her key .
    assert example.heads == (3, 2, 3, 6, 6, 6, -1, 9, 9, 6, 6)
    assert example.relations == (
        "mark", "det", "nsubj", "advcl", "punct", "nsubj", "root", "case", "nmod:poss", "obl", "punct",
    )  # fmt: skip
    assert example.antecedents == ((5, 2), (8, 2))


def test_figure_constructions_link_over_a_distance() -> None:
    making = build_example(Sentence(_making_easier()))
    verb_index, adjective_index = making.english.index("making"), making.english.index("difficult")
    assert (making.heads[adjective_index], making.relations[adjective_index]) == (verb_index, "xcomp")
    assert making.relations[adjective_index - 1] == "advmod"
    assert adjective_index - verb_index == 8
    its = build_example(_its_in_a_later_clause())
    assert its.antecedents == ((its.english.index("its"), its.english.index("law")),)


def test_particles_attach_to_their_verb(train: list[Example]) -> None:
    particles = [(e, i) for e in train for i, relation in enumerate(e.relations) if relation == "compound:prt"]
    assert len(particles) > 200
    assert {example.english[index] for example, index in particles} == {"on", "off", "up", "away", "back", "out"}
    assert sum(index - example.heads[index] >= 3 for example, index in particles) > 20


PRONOUN_CLASSES = {
    **dict.fromkeys(("he", "him", "his"), "male"),
    **dict.fromkeys(("she", "her"), "female"),
    **dict.fromkeys(("it", "its"), "none"),
    **dict.fromkeys(("they", "them", "their"), "plural"),
}


def test_antecedents_agree_and_precede(train: list[Example]) -> None:
    sexes = {entry.english: entry.sex for entry in (*lexicon.NOUNS, *lexicon.NAMES)}
    plurals = {entry.english_plural for entry in lexicon.NOUNS}
    seen: Counter[str] = Counter()
    for example in train:
        linked = dict(example.antecedents)
        for index, word in enumerate(example.english):
            expected = PRONOUN_CLASSES.get(word.lower())
            assert (index in linked) == (expected is not None), example.text("en")
            if expected is None:
                continue
            antecedent = example.english[linked[index]]
            antecedent = antecedent if antecedent in sexes else antecedent.lower()
            assert linked[index] < index
            assert expected == ("plural" if antecedent in plurals else sexes[antecedent]), example.text("en")
            seen[word.lower()] += 1
    assert min(seen[word] for word in PRONOUN_CLASSES) >= 50, seen


def test_its_takes_the_gender_of_a_distant_noun_in_german() -> None:
    for head, possessive in (("factory", "ihr"), ("hospital", "sein"), ("market", "sein")):
        owner = phrase("the", head)
        garden = Clause(phrase(Pronoun(owner.referent), "garden"), lexicon.BE, predicate=Predicate(adjective("big")))
        first = Clause(owner, lexicon.BE, predicate=Predicate(adjective("old")))
        assert lines(Sentence(first, "and", garden))[1].endswith(f"ist alt, und {possessive} Garten ist groß.")


def test_subject_and_verb_agree_in_english(train: list[Example]) -> None:
    finite = {"VBZ": 0, "VBP": 0}
    for example in train:
        tags = [node.label for node in _subtrees(example.tree) if not isinstance(node.children[0], Tree)]
        for index, relation in enumerate(example.relations):
            if relation != "nsubj" or tags[index] not in ("NN", "NNS", "NNP"):
                continue
            governor = example.heads[index]
            coordinated = any(r == "conj" and h == index for r, h in zip(example.relations, example.heads, strict=True))
            plural = tags[index] == "NNS" or coordinated
            group = [
                i for i, head in enumerate(example.heads) if head == governor and example.relations[i] in ("aux", "cop")
            ]
            for verb_index in (*group, governor):
                if tags[verb_index] in finite:
                    assert (tags[verb_index] == "VBP") == plural, example.text("en")
                    finite[tags[verb_index]] += 1
    assert min(finite.values()) > 1000


def test_english_article_fits_the_next_sound(train: list[Example]) -> None:
    for example in train:
        for word, following in pairwise(example.english):
            if word.lower() in ("a", "an"):
                assert (word.lower() == "an") == (following[0] in "aeiou")


def test_german_nouns_are_capitalised_and_french_elides(train: list[Example]) -> None:
    german_nouns = {form for entry in lexicon.NOUNS for form in (entry.german, entry.german_plural)}
    assert all(form[0].isupper() for form in german_nouns)
    for example in train:
        french = example.french
        for word, following in pairwise(french):
            starts_with_vowel = following[0].lower() in "aeiouhéèêàâôîœ"
            assert not (word.lower() in ("le", "la", "je", "ne", "de", "que", "me", "se") and starts_with_vowel), french
            assert not (word.endswith("'") and word != "aujourd'hui" and not starts_with_vowel), french
            assert (word, following) not in {("de", "le"), ("de", "les"), ("à", "le"), ("à", "les")}, french


def test_german_subordinate_clauses_end_in_their_finite_verb(train: list[Example]) -> None:
    verbs = [*_VERBS, lexicon.MAKE, lexicon.BE]
    finite = {form for entry in verbs for forms in (entry.german.present, entry.german.past) for form in forms}
    finite |= {entry.german.prefix + form for entry in verbs for form in (*entry.german.present, *entry.german.past)}
    finite |= {*lexicon.HABEN.present, *lexicon.WERDEN_PRESENT}
    finite |= {form for entry in lexicon.MODALS for form in (*entry.german, *(entry.german_past or ()))}
    checked = 0
    for example in train:
        for start, word in enumerate(example.german):
            if word.lower() not in ("weil", "dass", "als", "wenn", "indem"):
                continue
            if word == "als" and example.german[start - 1] != ",":
                continue  # "than"
            # A clause without commas of its own ends before the next mark.
            end = next(i for i in range(start, len(example.german)) if example.german[i] in (",", "."))
            relative = example.german[end] == "," and example.german[end - 1] not in finite
            if not relative:
                assert example.german[end - 1] in finite, example.text("de")
                checked += 1
    assert checked > 2_500


def _longest_bracket(example: Example) -> int:
    """The widest distance from a finite German verb to the prefix, participle or infinitive that closes its clause."""
    verbs = [*_VERBS, lexicon.MAKE, lexicon.BE]
    closing = {entry.german.prefix for entry in verbs} | {entry.german.participle for entry in verbs}
    closing |= {entry.german.infinitive for entry in verbs}
    opening = {*lexicon.HABEN.present, *lexicon.BE.german.present, *lexicon.WERDEN_PRESENT}
    opening |= {form for entry in lexicon.MODALS for form in (*entry.german, *(entry.german_past or ()))}
    opening |= {form for v in verbs if v.german.prefix for form in (*v.german.present, *v.german.past)}
    widest, start = 0, None
    for index, word in enumerate(example.german):
        if word in (",", "."):
            start = None
        elif word in opening and start is None:
            start = index
        elif word in closing and start is not None:
            widest = max(widest, index - start)
    return widest


def test_german_reorders_over_a_distance(splits: dict[str, list[Example]]) -> None:
    """In a quarter of the sentences or more, two parts of one verb are 3 words apart; in some, 6."""
    distances = [_longest_bracket(example) for example in splits["test"]]
    assert sum(distance >= 3 for distance in distances) >= len(distances) / 4
    assert sum(distance >= 6 for distance in distances) >= len(distances) / 50


def test_lengths_lie_in_their_range_with_a_moderate_mean(splits: dict[str, list[Example]]) -> None:
    for examples in splits.values():
        for language in LANGUAGES:
            lengths = [len(example.tokens(language)) for example in examples]
            assert MIN_TOKENS == 4 <= min(lengths) <= max(lengths) <= 40 == MAX_TOKENS
            assert 9 < sum(lengths) / len(lengths) < 14


def test_lines_are_detokenised(train: list[Example]) -> None:
    for example in train:
        for language in LANGUAGES:
            line = example.text(language)
            assert line[0].isupper()
            assert line.endswith(".")
            assert line.strip() == line
            assert not any(wrong in line for wrong in (" .", " ,", "' ", "  ", ",,", ",."))


def test_splits_share_no_line(splits: dict[str, list[Example]]) -> None:
    assert {name: len(examples) for name, examples in splits.items()} == DEFAULT_SIZES
    for language in LANGUAGES:
        texts = [example.text(language) for examples in splits.values() for example in examples]
        assert len(set(texts)) == len(texts)


def test_training_covers_every_word_of_dev_and_test(splits: dict[str, list[Example]]) -> None:
    for language in LANGUAGES:
        known = {token for example in splits["train"] for token in example.tokens(language)}
        for name in ("dev", "test"):
            assert {token for example in splits[name] for token in example.tokens(language)} <= known


def test_vocabulary_has_several_hundred_unevenly_used_words(train: list[Example]) -> None:
    for language, (low, high) in {"en": (500, 650), "de": (900, 1200), "fr": (950, 1300)}.items():
        counts = Counter(token.lower() for example in train for token in example.tokens(language))
        ranked = [count for _, count in counts.most_common()]
        total = sum(ranked)
        assert low <= len(ranked) <= high, language
        # Zipf's mark: a tenth of the words makes most of the text, and the rarer half very little.
        assert sum(ranked[: len(ranked) // 10]) > 0.6 * total
        assert sum(ranked[len(ranked) // 2 :]) < 0.1 * total


def _count_repeats(stream: Iterator[Example]) -> int:
    """How often an English sentence came again, always with the analysis and the translations of the first time."""
    firsts: dict[tuple[str, ...], Example] = {}
    repeats = 0
    for example in stream:
        first = firsts.setdefault(example.english, example)
        repeats += first is not example
        assert first == example, (first.text("de"), example.text("de"), first.text("fr"), example.text("fr"))
    return repeats


def test_an_english_sentence_has_one_analysis_and_one_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two nouns and one other word of each class, sentences that could be read in two ways do meet."""
    draw = choices.Table.draw

    def draw_from_few(table: choices.Table, rng: Random):
        item = draw(table, rng)
        if isinstance(item, Noun):
            return table.items[int(rng.random() * min(2, len(table.items)))]
        return table.items[0] if isinstance(item, Adjective | Adverb | Modal | Preposition | Verb) else item

    monkeypatch.setattr(choices.Table, "draw", draw_from_few)
    assert _count_repeats(islice(generate_examples(seed=7), 8_000)) > 300


@pytest.mark.slow
def test_fifty_thousand_english_sentences_have_one_translation_each() -> None:
    assert _count_repeats(islice(generate_examples(seed=11), 50_000)) > 0


def test_same_seed_same_corpus_and_other_seed_another() -> None:
    sizes = {"train": 40, "dev": 5}
    assert generate_splits(sizes) == generate_splits(sizes)
    assert generate_splits(sizes) != generate_splits(sizes, seed=1)


def test_a_split_does_not_depend_on_the_size_of_the_one_before() -> None:
    small, large = generate_splits({"train": 10}), generate_splits({"train": 30})
    assert large["train"][:10] == small["train"]


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_corpus_is_the_same_in_every_process(hash_seed: str) -> None:
    program = (
        "from core.data.grammar import LANGUAGES, generate_splits\n"
        "for example in generate_splits({'train': 60})['train']:\n"
        "    print(*(ascii(example.text(language)) for language in LANGUAGES), example.tree)"
    )
    here = "".join(
        " ".join([*(ascii(example.text(language)) for language in LANGUAGES), str(example.tree)]) + "\n"
        for example in generate_splits({"train": 60})["train"]
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    there = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert there.stdout == here


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "12"])
def test_nonsense_sizes_are_refused(size) -> None:
    with pytest.raises(ValueError, match=r"sizes\['train'\]="):
        generate_splits({"train": size})


def test_no_split_is_refused() -> None:
    with pytest.raises(ValueError, match="names no split"):
        generate_splits({})


def test_unknown_language_is_refused() -> None:
    example = generate_splits({"train": 1})["train"][0]
    with pytest.raises(ValueError, match="language='nl'"):
        example.text("nl")
