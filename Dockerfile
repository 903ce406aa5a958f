# One image for every part: `docker run IMAGE api|worker|beat|events|workspaces`. Configuration is environment variables only.
FROM python:3.12-slim-bookworm

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app

# The data of the ocr pack; its engine comes in a wheel.
RUN apt-get update -q \
    && apt-get install -y -q --no-install-recommends tesseract-ocr-kor tesseract-ocr-eng tesseract-ocr-osd \
    && rm -rf /var/lib/apt/lists/*

COPY requirements/base.txt requirements/base.txt
RUN pip install --require-hashes --only-binary=:all: --root-user-action=ignore -r requirements/base.txt

RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin dpp \
    && install -d -o dpp -g dpp /seed /metrics

COPY . .

# collectstatic reads the settings, which insist on an environment; nothing of this one reaches the running image.
RUN DATABASE_URL=postgresql://none@none/none REDIS_URL=redis://none DPP_QUEUE_URL=http://none DPP_DLQ_URL=http://none \
    DPP_SECRET_KEY=only-for-collectstatic-only-for-collectstatic-0000 \
    python manage.py collectstatic --no-input --verbosity 0

USER dpp
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "dpp_project.serve"]
CMD ["api"]
