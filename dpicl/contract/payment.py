"""Who pays for what is drawn, counted or read: an account, the clients themselves, or nobody, where
rows are public. All that is said of it is said in these words.

    account     a release is charged to the account that the ledger has for where the rows are
                (`home.accounts.bind_account`), once; what is derived from it costs nothing
    clients     of their reports each client's own wallet pays, and no account
    nobody      the rows of a benchmark are public: its account has no cap, and the noise is seeded

What would read private rows and be charged to no account is refused, or left out.
"""

CLIENTS_PAY = (
    "No account is charged: clients pay from their own wallets, and rows of reports are "
    "post-processing."
)
NOBODY_PAYS = "charged: nothing; the data are public, and the noise is seeded"
NOTHING_RELEASED = "Nothing was charged: the noise is seeded, so this run released nothing."
UNPAID_BASELINES = "they would read the rows again, charged to no account"
UNPAID_TRUTH = "true errors of a release are an unpaid release"
NOTHING_MORE = "so that it costs nothing"
"""Of what is derived from a release."""
DELTA_STATED = " (a schema states one by `privacy: {budget: {delta: 1e-6}}`)"
"""After a refusal for want of it."""
HORIZON_PAID = (
    "Account {account}: all periods of this horizon were charged with its first; those to come "
    "cost nothing more."
)
ACCOUNTS_ADD_UP = (
    "Every ε and seed, and except for LDP-TabICL every k, is a release of its own: on "
    "private data their costs add up."
)
WALLETS_ADD_UP = (
    "Every ε is a collection of its own, and its cost adds up in each client's "
    "wallet; seeds and k cost nothing."
)


def spending(
    account: str,
    releases: int,
    charged: int,
    *,
    spent: float,
    cap: float | None,
    published: str = "",
    lowering: str = "",
) -> str:
    """What an account was charged now, for so many releases, and what is spent in all; without a
    cap it is a benchmark's.

    Args:
        published: when the one release was published, where nothing of the rows at hand is in it.
        lowering: which contract lowers the cap, in a sentence; empty where none does.
    """
    if releases == 1:
        now = f"1 release, {'charged now' if charged else 'charged before and free now'}"
        if published:
            now += f", as released on {published[:10]}: nothing of the rows at hand is in it"
    else:
        now = (
            f"{releases} releases, {charged} of them charged now, {releases - charged} "
            f"charged before and free now"
        )
    total = (
        "a public benchmark without a cap"
        if cap is None
        else f"epsilon {spent:.4g} of {cap:.4g} is spent"
    )
    return f"{account}: {now}; {total}{lowering and '; '}{lowering}."
