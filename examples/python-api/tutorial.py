"""The tutorial's second half from Python: translate, look at candidates, score, compare two systems, combine them.

    python examples/python-api/tutorial.py data/mine-en-de runs/mine-en-de-tiny runs/more-en-de-tuned

Data and models come from the commands of docs/tutorial.md. Several runs are compared with the first.
"""

import sys
from pathlib import Path

import nmt
from nmt.evaluation.metrics import make_metric, score
from nmt.evaluation.significance import evaluate
from nmt.text.lines import read_lines


def main(data: Path, runs: list[str]) -> None:
    models = {run: nmt.load(run) for run in runs}
    first = models[runs[0]]
    sources = list(read_lines(data / f"test.{first.source_lang}"))
    references = list(read_lines(data / f"test.{first.target_lang}"))

    print(f"Candidates for: {sources[0]}")
    [translation] = first.translate(sources[:1], beam=4, nbest=3)
    for candidate in translation.candidates:
        print(f"  {candidate.score:8.3f}  {candidate.text}")

    systems = {}
    for run, model in models.items():
        translations = model.translate(sources)
        systems[run] = [translation.text for translation in translations]
        suspicious = [translation for translation in translations if translation.guard is not None]
        bleu = score(make_metric("bleu", model.target_lang), systems[run], [references])
        print(f"{run}: BLEU = {bleu.value:.2f}, {len(suspicious)} translations looked wrong\n  {bleu.signature}")

    if len(runs) > 1:
        try:
            ensemble = nmt.load(runs)
        except nmt.NmtError as error:  # of different vocabularies, for example
            print(f"No ensemble: {error}")
        else:
            systems["ensemble"] = [translation.text for translation in ensemble.translate(sources)]
        scores = evaluate(systems, [references], [make_metric("bleu", first.target_lang)])
        print(f"Paired bootstrap against {runs[0]}:")
        for system, [bleu] in scores.items():
            p_value = "baseline" if bleu.p_bootstrap is None else f"p = {bleu.p_bootstrap:.4f}"
            print(f"  {bleu.value:6.2f}  {p_value}  {system}")

    # Two other searches: greedy, and one with scores that favour longer outputs.
    greedy = [translation.text for translation in first.translate(sources, beam=1)]
    longer = [
        translation.text for translation in first.translate(sources, length_normalization="length", length_penalty=1.0)
    ]
    for name, lines in (("greedy", greedy), ("normalised by length", longer)):
        print(f"{name}: BLEU = {score(make_metric('bleu', first.target_lang), lines, [references]).value:.2f}")

    # Pairs that the model finds least likely are often wrong in the data.
    scored = sorted(first.score(sources, references), key=lambda pair: pair.score)
    print("Least likely references:")
    for pair in scored[:3]:
        print(f"  {pair.score:8.3f}  {pair.source}  ->  {pair.text}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:])
