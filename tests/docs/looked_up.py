"""Commands of the pages beside docs, which are many: each is typed by another test, or it is said why by none."""

OUTSIDE = {"../README.md", "../CONTRIBUTING.md"}
"""Pages beside docs."""
AS_THEY_STAND = {"how-to/cluster.md", "how-to/schedule.md", "how-to/watch.md"}
"""Pages whose commands stay up, or need several hosts: test_typed.py types them in terminals."""

TYPED = {
    "dpicl run": ("tests/flows/test_interrupted.py", '"run", "demo"'),
    "dpicl run few-shot-demo": ("tests/cli/test_text_commands.py", "few-shot-demo"),
    "dpicl contract new": ("tests/cli/test_contract_ask.py", '"contract", "new"'),
    "dpicl contract check": ("tests/cli/test_contract_schema.py", '"check"'),
    "dpicl contract show": ("tests/cli/test_commands.py", '"show"'),
    "dpicl protect": ("tests/cli/test_protect.py", '"protect"'),
    "dpicl ask --demos": ("tests/cli/test_ask_demos.py", '"--demos"'),
    "dpicl ask": ("tests/cli/test_ask_command.py", '"ask"'),
    "dpicl list": ("tests/cli/test_commands.py", '"list"'),
    "dpicl budget": ("tests/cli/test_commands.py", '"budget"'),
    "dpicl report": ("tests/cli/test_commands.py", '"report"'),
    "dpicl data list": ("tests/cli/test_commands.py", '"data", "list"'),
    "dpicl forecast": ("tests/cli/test_forecast.py", '"forecast"'),
    "dpicl metrics": ("tests/cli/test_metrics.py", '"metrics", "--port"'),
    "dpicl serve": ("tests/cli/test_serve.py", '"serve"'),
    "dpicl ledger move": ("tests/cli/test_state_home.py", '"ledger", "move"'),
    "python -m dpicl.client": ("tests/cli/test_client.py", "dpicl.client"),
    "make demo": (".ci/run", "make demo"),
    "make test": (".ci/run", "make test"),
}
"""How a command begins, by which test it is typed, and the words there; of several beginnings the longest counts."""

NOT_TYPED = {
    "make audit": "takes hours",
    "make bench": "takes hours",
    "make chaos": "takes hours",
    "make drill": "takes half an hour",
    "make reference": "writes into the repository; a test compares what it would write",
    "dpicl data fetch": "needs the network",
    "dpicl run table-": "needs data sets and a model; tests run these methods on small ones",
    "dpicl run beyond": "takes half an hour",
    "dpicl run few-shot-table": "needs data sets and a GPU",
    "dpicl run dp-icl-": "needs data sets and a GPU",
    "dpicl run private-table --datasets <name>": "needs the reader's table; own-table.md is followed",
    "dpicl advise": "takes half a minute; its function is tested in tests/library/methods/test_advise.py",
}
