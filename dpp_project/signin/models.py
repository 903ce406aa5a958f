"""The second factor of an operator, where she has set one up."""

from django.conf import settings
from django.db import models


class SecondFactor(models.Model):
    """A shared secret. It goes with its operator; `last_step` is the newest code that was used."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="second_factor")
    secret = models.TextField(editable=False)
    last_step = models.BigIntegerField(default=0, db_default=0, editable=False)

    class Meta:
        db_table = "second_factors"

    def __str__(self) -> str:
        return f"second factor of {self.user}"
