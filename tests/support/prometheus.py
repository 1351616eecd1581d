"""A page of metrics, as Prometheus reads its text format 0.0.4."""
import re
import urllib.request

import waiting

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_]\w*="[^"\\\n]*"(?:,[a-zA-Z_]\w*="[^"\\\n]*")*\})? (\S+)')
KINDS = ("counter", "gauge", "histogram")


def fetch(url):
    with urllib.request.urlopen(url, timeout=waiting.TIMEOUT_S) as reply:
        return reply.read().decode()


def parse(page):
    """The values, by name with labels, as on the page. Raises AssertionError where the text is not valid."""
    assert page.endswith("\n"), "the last line has no end"
    values = {}
    types = {}
    current = None
    for line in page.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in types, f"{current} is described twice"
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and kind in KINDS, line
            types[name] = kind
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, f"no sample: {line}"
        name, labels, value = sample.groups()
        suffixes = ("_bucket", "_sum", "_count") if types[current] == "histogram" else ("",)
        assert name in [current + suffix for suffix in suffixes], f"{line} stands below {current}"
        assert name + (labels or "") not in values, f"{line} is there twice"
        values[name + (labels or "")] = float(value)
    for name, kind in types.items():
        if kind == "histogram":
            check_histogram(name, values)
    return values


def check_histogram(name, values):
    series = {}
    for key, value in values.items():
        bucket = re.fullmatch(re.escape(name) + r'_bucket\{(.*,)?le="([^"]*)"\}', key)
        if bucket:
            series.setdefault((bucket[1] or "").rstrip(","), []).append((float(bucket[2]), value))
    assert series, f"{name} has no buckets"
    for labels, buckets in series.items():
        braced = "{" + labels + "}" if labels else ""
        assert buckets == sorted(buckets), f"the buckets of {name}{braced} do not ascend"
        assert [count for _, count in buckets] == sorted(count for _, count in buckets), f"{name}{braced} is not cumulative"
        assert buckets[-1] == (float("inf"), values[f"{name}_count{braced}"]), f"{name}{braced} has two counts"
        assert f"{name}_sum{braced}" in values
