"""What a data holder runs: randomises its own records, remembers the answers, and sends only those.

    python -m dpicl.client contract.yaml --epsilon 1 --design subset < records.csv > reports.jsonl

Needs numpy, pyarrow, pydantic and cryptography; no orchestrator, cluster, database or model. The
collector adds reports up by `dpicl collect`.
"""
