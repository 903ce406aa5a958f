"""What every address of the API is made from."""

from typing import Final

from rest_framework.views import APIView

METHODS: Final = ("get", "head", "post", "put", "patch", "delete")


class ApiView(APIView):
    """OPTIONS is no method of ours: DRF would list it under Allow and then answer it 405 all the same."""

    http_method_names = list(METHODS)
