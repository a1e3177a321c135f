"""What a real language model makes of private demonstrations: from runs of `real-tables` and
`real-texts` to a page.

python -m lab.benchmarks.real_model collect .dpicl/runs/RUN smollm2     after each run: its answers,
and the bundled model's to the same prompts
python -m lab.benchmarks.real_model write                               docs/real-model.md, and the
table of README.md
"""
