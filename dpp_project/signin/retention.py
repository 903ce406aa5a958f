from dpp_project.retention import DataKind

KINDS = (
    DataKind(
        name="second_factors",
        tables=("second_factors",),
        states="set up",
        made_by="an operator, under her own name's menu",
        read_by="the sign-in",
        until="as long as its account, or until it is taken away",
        why="What an operator signs in with.",
        deleted_by="another operator, on the account's page",
    ),
)
