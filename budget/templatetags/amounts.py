"""`{{ micros|usd }}`: an amount as people read it, exact to the micro."""

from django import template

from budget.money import format_plain_usd

register = template.Library()


@register.filter
def usd(micros: int | None) -> str:
    return "unknown" if micros is None else f"{'-' if micros < 0 else ''}${format_plain_usd(abs(micros))}"
