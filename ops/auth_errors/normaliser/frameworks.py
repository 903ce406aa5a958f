"""Which frames are the application's own: the one table of what is not. Part of version 1: a change moves hashes, so a
new table is a new version.
"""

import re
from typing import Final

from ops.auth_errors.normaliser.traces import GO, JAVA, JAVASCRIPT, PYTHON, TracedFrame

JAVA_PREFIXES: Final = (
    "java.", "javax.", "jdk.", "sun.", "com.sun.", "jakarta.", "kotlin.", "kotlinx.", "scala.", "groovy.",
    "clojure.", "org.codehaus.groovy.", "org.apache.", "org.springframework.", "org.hibernate.", "org.jboss.",
    "org.wildfly.", "org.eclipse.", "org.glassfish.", "org.postgresql.", "org.mariadb.", "org.h2.", "org.aspectj.",
    "org.mybatis.", "org.keycloak.", "org.bouncycastle.", "org.slf4j.", "org.junit.", "org.mockito.",
    "org.redisson.", "org.jooq.", "org.flywaydb.", "org.thymeleaf.", "org.quartz.", "org.reactivestreams.",
    "org.gradle.", "org.opensaml.", "com.fasterxml.", "com.google.", "com.zaxxer.", "com.mysql.", "com.microsoft.",
    "com.mongodb.", "com.netflix.", "com.auth0.", "com.nimbusds.", "com.amazonaws.", "com.ibm.", "com.intellij.",
    "com.rabbitmq.", "com.squareup.", "com.datastax.", "com.alibaba.", "com.typesafe.", "ch.qos.logback.",
    "oracle.", "weblogic.", "software.amazon.", "io.netty.", "io.undertow.", "io.jsonwebtoken.", "io.micrometer.",
    "io.micronaut.", "io.quarkus.", "io.vertx.", "io.reactivex.", "io.lettuce.", "io.grpc.", "io.opentelemetry.",
    "io.smallrye.", "io.ktor.", "io.sentry.", "io.github.resilience4j.", "reactor.", "rx.", "akka.", "play.",
    "feign.", "okhttp3.", "okio.", "retrofit2.", "redis.clients.", "net.bytebuddy.", "net.sf.cglib.",
    "net.sf.ehcache.", "net.sf.jsqlparser.", "net.logstash.", "javassist.", "brave.", "dagger.", "android.",
    "androidx.", "com.android.", "dalvik.", "libcore.",
)  # fmt: skip
PYTHON_PLACES: Final = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\](?:python|pypy)\d[\w.]*[/\\]|[/\\]Python[\d-]*[/\\]Lib[/\\]"
    r"|python\d+\.zip[/\\]|^<(?:frozen |attrs generated|decorator-gen|__array_function__|string-template)"
)
"""Installed packages and the standard library; what Python makes up while it runs."""
JAVASCRIPT_PLACES: Final = re.compile(
    r"node_modules|^node:|^internal/|^(?:bootstrap_node|events|module|net|timers|_http_\w+|_stream_\w+)\.js$"
    r"|^(?:native|<anonymous>|index \d+|)$|\[native code\]|^self-hosted$|^wasm:|^[a-z-]+-extension:"
    r"|webpack/(?:bootstrap|runtime)|[/.~_-]vendors?[/.~_-]|\bpolyfills?\b|/framework-[0-9a-f]+\.js"
    r"|//(?:unpkg\.com|cdn\.jsdelivr\.net|cdnjs\.cloudflare\.com|ajax\.googleapis\.com|esm\.sh)/|^(?:ext|deno|bun):"
)
GO_PLACES: Final = re.compile(
    r"@v\d|/pkg/mod/|/vendor/|/usr/local/go/src/|/usr/lib/go[-\w.]*/src/|/libexec/src/|toolchain@[\w.-]+/src/|^_cgo"
)
GO_PREFIXES: Final = (
    "archive/", "bufio", "builtin", "bytes", "cmp", "compress/", "container/", "context", "crypto", "crypto/",
    "database/", "debug/", "embed", "encoding", "encoding/", "errors", "expvar", "flag", "fmt", "go/", "hash",
    "hash/", "html", "html/", "image", "image/", "index/", "internal/", "io", "io/", "iter", "log", "log/", "maps",
    "math", "math/", "mime", "mime/", "net", "net/", "os", "os/", "panic", "path", "path/", "plugin", "reflect",
    "regexp", "regexp/", "runtime", "runtime/", "slices", "sort", "strconv", "strings", "structs", "sync", "sync/",
    "syscall", "testing", "testing/", "text/", "time", "unicode", "unicode/", "unique", "unsafe", "vendor/", "weak",
    "golang.org/", "google.golang.org/", "go.uber.org/", "go.opentelemetry.io/", "github.com/gin-gonic/",
    "github.com/labstack/", "github.com/gorilla/", "github.com/go-chi/", "github.com/gofiber/",
    "github.com/valyala/", "github.com/golang-jwt/", "github.com/lib/pq", "github.com/jackc/",
    "github.com/go-redis/", "github.com/redis/", "github.com/pkg/errors", "github.com/grpc-ecosystem/", "gorm.io/",
    "k8s.io/", "entgo.io/",
)  # fmt: skip
"""A whole package where no slash ends it, else all packages below."""


def in_app(language: str, frame: TracedFrame) -> bool:
    """True for what no entry of the table names; so an unknown library counts as the application's."""
    if language == JAVA:
        return _of_java(frame["module"])
    if language == PYTHON:
        return PYTHON_PLACES.search(frame["file"]) is None
    if language == JAVASCRIPT:
        return JAVASCRIPT_PLACES.search(frame["file"]) is None
    if language == GO:
        return GO_PLACES.search(frame["file"]) is None and not _is_go_library(frame["module"])
    return True


def _of_java(module: str) -> bool:
    return (
        "." in module
        and not module.startswith(JAVA_PREFIXES)
        and "$Proxy" not in module
        and "$$FastClass" not in module
    )


def _is_go_library(module: str) -> bool:
    return any(module.startswith(one) if one.endswith("/") else module == one for one in GO_PREFIXES)
