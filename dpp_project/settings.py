"""Django settings, made from the environment (dpp_project/process_env.py) and from nothing else."""

import tomllib
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.templatetags.static import static
from django.urls import reverse_lazy

from dpp_project import process_env
from dpp_project.constants import PRESIGNED_URL_TTL_SECONDS
from dpp_project.observe import logging
from dpp_project.stores.postgres import (
    GONE_SECONDS,
    POOL_RECONNECT_SECONDS,
    AskedConnection,
    BoundedConnection,
    session_settings,
)


def version() -> str:
    """The product's version, from the one place that states it."""
    return str(tomllib.loads((BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


BASE_DIR = Path(__file__).resolve().parent.parent
ENV = process_env.ENV

SECRET_KEY = ENV.DPP_SECRET_KEY
SECRET_KEY_FALLBACKS = ENV.DPP_SECRET_KEY_FALLBACKS
DEBUG = ENV.DPP_DEBUG
ALLOWED_HOSTS = ENV.DPP_ALLOWED_HOSTS
CSRF_TRUSTED_ORIGINS = ENV.DPP_CSRF_TRUSTED_ORIGINS

# Worker, events and workspaces serve no page and answer no request; without what those need a worker is a fifth less.
_PAGES = ENV.DPP_SERVICE not in {"worker", "events", "workspaces"}
RELEASE = version()

INSTALLED_APPS = [
    *(["unfold", "unfold.contrib.filters", "django.contrib.admin"] if _PAGES else []),
    "django.contrib.auth",
    "django.contrib.contenttypes",
    *(["django.contrib.sessions", "django.contrib.messages", "django.contrib.staticfiles"] if _PAGES else []),
    *(["rest_framework", "drf_spectacular", "drf_spectacular_sidecar"] if _PAGES else []),
    "dpp_project.apps.PlatformConfig",
    "dpp_project.audit",
    "dpp_project.signin",
    "dpp_project.jobs",
    "dpp_project.heartbeats",
    "dpp_project.lifecycle",
    "dpp_project.outbox",
    "tenants",
    "tenants.webhooks",
    "budget",
    "runs",
    "reaper",
    "ops.tickets",
    "ops.auth_errors",
    "ops.workspaces",
    "ops.automations",
]

MIDDLEWARE = [
    "dpp_project.http.middleware.RequestMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "dpp_project.http.refused_by_server.RefusedByServer",
]

ROOT_URLCONF = "dpp_project.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

_database = urlsplit(ENV.DATABASE_URL)
# A migration may take as long as it takes, and a person sits before it.
_BOUNDED = ENV.DPP_SERVICE != "command"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _database.hostname,
        "PORT": _database.port or 5432,
        "USER": unquote(_database.username or ""),
        "PASSWORD": unquote(_database.password or ""),
        "NAME": unquote(_database.path.removeprefix("/")),
        "CONN_MAX_AGE": 0,
        "OPTIONS": {
            "pool": {
                "min_size": 0,
                "max_size": ENV.DPP_DB_POOL_SIZE,
                "timeout": 10,
                "reconnect_timeout": POOL_RECONNECT_SECONDS,
                "connection_class": BoundedConnection if _BOUNDED else AskedConnection,
            },
            "prepare_threshold": 0,
            "server_side_binding": True,
            "connect_timeout": 5,
            "keepalives_idle": 15,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": round(GONE_SECONDS * 1_000),
            "options": session_settings(bounded=_BOUNDED),
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = ENV.REDIS_URL
REDIS_TIMEOUT_SECONDS = ENV.DPP_REDIS_TIMEOUT_MS / 1_000
RATE_LIMIT_ON_REDIS_FAILURE = ENV.DPP_RATE_LIMIT_ON_REDIS_FAILURE

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
FORMAT_MODULE_PATH = "dpp_project.formats"
USE_TZ = True
REPORT_TIME_ZONE = ENV.DPP_REPORT_TIME_ZONE

SOLO_LIMIT_USD = ENV.DPP_SOLO_LIMIT_USD

TICKET_STALE_SECONDS = ENV.DPP_TICKET_STALE_SECONDS
TICKET_REAPER_MAX_CLEAN = ENV.DPP_TICKET_REAPER_MAX_CLEAN
TICKET_REAPER_EXCLUDED_TYPES = ENV.DPP_TICKET_REAPER_EXCLUDED_TYPES

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"

STORAGES = {
    "default": {
        "BACKEND": "runs.bucket.storage.RunStorage",
        "OPTIONS": {
            "bucket_name": ENV.DPP_BUCKET,
            "access_key": ENV.AWS_ACCESS_KEY_ID,
            "secret_key": ENV.AWS_SECRET_ACCESS_KEY,
            "security_token": ENV.AWS_SESSION_TOKEN,
            "region_name": ENV.AWS_REGION,
            "endpoint_url": ENV.S3_ENDPOINT_URL,
            "public_endpoint_url": ENV.S3_PUBLIC_ENDPOINT_URL,
            "default_acl": None,
            "querystring_expire": PRESIGNED_URL_TTL_SECONDS,
        },
    },
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

LOGGING = logging.logging_configuration(service=ENV.DPP_SERVICE, level=ENV.DPP_LOG_LEVEL, folder=ENV.DPP_LOG_DIR)

REST_FRAMEWORK = {
    "DEFAULT_PARSER_CLASSES": ["dpp_project.http.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "EXCEPTION_HANDLER": "dpp_project.http.handlers.exception_handler",
    "DEFAULT_AUTHENTICATION_CLASSES": ["tenants.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["tenants.permissions.HasScope"],
    "DEFAULT_THROTTLE_CLASSES": ["tenants.rate_limits.TenantRateThrottle"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_METADATA_CLASS": None,
    "URL_FORMAT_OVERRIDE": None,
    "FORMAT_SUFFIX_KWARG": None,
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Decision Pack Platform",
    "DESCRIPTION": (
        "Work sold by the run. Whatever dies, whenever, each accepted run ends once, is charged once,"
        " and every micro can be accounted for."
    ),
    "VERSION": RELEASE,
    "OAS_VERSION": "3.1.0",
    "LICENSE": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "TAGS": [  # in this order, on the page too
        {"name": "Runs", "description": "Submit, poll, list, cancel; what a run would cost."},
        {"name": "Packs", "description": "What is for sale."},
        {"name": "Uploads", "description": "Files for packs that read files."},
        {"name": "Budget", "description": "The tenant's money, to the micro."},
        {"name": "Webhooks", "description": "Events sent to the tenant's own addresses, signed."},
        {"name": "Keys", "description": "What a key may do."},
        {"name": "Auth errors", "description": "Report failed sign-ins; for operators, what became of them."},
        {"name": "Operators", "description": "For keys of the operator tenant."},
        {"name": "Tickets", "description": "For keys of the operator tenant: work for the ops cycle."},
    ],
    "SCHEMA_PATH_PREFIX": r"/v1/",
    "COMPONENT_SPLIT_REQUEST": True,
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [
        f"dpp_project.http.openapi.{hook}" for hook in ("add_problems", "title_schemas", "require_bodies")
    ],
}

# Unfold's own violet cannot be read on its dark pages.
_BLUE = {
    "50": "oklch(97% .014 254.604)",
    "100": "oklch(93.2% .032 255.585)",
    "200": "oklch(88.2% .059 254.128)",
    "300": "oklch(80.9% .105 251.813)",
    "400": "oklch(75% .135 254)",
    "500": "oklch(70.7% .165 254.624)",
    "600": "oklch(54.6% .245 262.881)",
    "700": "oklch(48.8% .243 264.376)",
    "800": "oklch(42.4% .199 265.638)",
    "900": "oklch(37.9% .146 265.522)",
    "950": "oklch(28.2% .091 267.935)",
}
UNFOLD = {
    "SITE_TITLE": "DPP console",
    "SITE_HEADER": "DPP",
    "SITE_SUBHEADER": "Decision Pack Platform",
    "SITE_SYMBOL": "deployed_code",
    "STYLES": [lambda _request: static("dpp/console.css")],
    "SCRIPTS": [lambda _request: static("dpp/console.js")],
    "COLORS": {"primary": _BLUE},
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "/static/dpp/icon.svg"}],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "LOGIN": {"form": "dpp_project.signin.forms.LoginForm"},
    "ACCOUNT": {"navigation": [{"title": "Second factor", "link": reverse_lazy("second-factor")}]},
    "DASHBOARD_CALLBACK": "dpp_project.console.dashboard.context",
    "SIDEBAR": {"show_search": True, "show_all_applications": False},
}

# No address takes a file: without handlers a part that is one is dropped as it is read, and /tmp stays empty.
FILE_UPLOAD_HANDLERS: list[str] = []
LOGIN_REDIRECT_URL = "admin:index"
APPEND_SLASH = False
SECURE_SSL_REDIRECT = ENV.DPP_HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ENV.DPP_HTTPS else None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENV.DPP_HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if ENV.DPP_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = ENV.DPP_HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
# From the login on, however busy the session is; signin.views says so to each.
SESSION_LENGTH = timedelta(hours=12)
SESSION_COOKIE_AGE = int(SESSION_LENGTH.total_seconds())
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
_RULES = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"{_RULES}.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": f"{_RULES}.UserAttributeSimilarityValidator"},
    {"NAME": f"{_RULES}.CommonPasswordValidator"},
    {"NAME": f"{_RULES}.NumericPasswordValidator"},
]
X_FRAME_OPTIONS = "DENY"
