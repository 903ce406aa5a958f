"""The console's own panels: what the platform stands on."""

from dpp_project.console.dashboard import Figure, Panel, dashboard_panel
from dpp_project.pages import health


@dashboard_panel(title="Services", order=10, permission="jobs.view_jobreport", is_live=True)
def services_panel() -> Panel:
    return Panel(
        title="Services",
        description="Checked just now, as /readyz checks them.",
        figures=[
            Figure(
                label=name,
                value=result["state"],
                note=f"{result['ms']} ms {result.get('error', '')}",
                is_bad=result["state"] != "up",
            )
            for name, result in health.latest_probes().items()
        ],
    )
