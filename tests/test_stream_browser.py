"""The live page of a stream fits the window of a browser, wide or narrow, follows its colours and loads nothing."""

from __future__ import annotations

import re

import pytest

from stream_runs import FIXED, LANDMARKS
from test_report_browser import browser  # noqa: F401  (a fixture)

BOX = "const r = document.querySelector('svg').getBoundingClientRect(); return [r.left, r.right, r.width, r.height]"


@pytest.fixture
def page(kernelgpa, frames, tmp_path):
    assert kernelgpa("stream", *FIXED, "frames.jsonl", "--window", 8, "--view", "live.html")[0] == 0
    return tmp_path / "live.html"


def luminance(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / (3 * 255)


@pytest.mark.parametrize(("width", "height"), [(1200, 800), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_live_page_shows_map_frame_and_trajectory(browser, page, width, height, scheme):  # noqa: F811
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        browser.get(page.as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        left, right, drawn_width, drawn_height = browser.execute_script(BOX)
        assert 0 <= left < right <= width
        assert min(drawn_width, drawn_height) > 150
        assert browser.execute_script("return document.querySelectorAll('circle:not([class])').length") == LANDMARKS
        inside = (
            "const s = document.querySelector('svg').getBoundingClientRect();"
            "return [...document.querySelectorAll('circle,polyline,line')].every(one => {"
            "const r = one.getBoundingClientRect();"
            "return r.left >= s.left && r.right <= s.right && r.top >= s.top && r.bottom <= s.bottom})"
        )
        assert browser.execute_script(inside)
        style = "return getComputedStyle(document.body)"
        text, ground = (browser.execute_script(f"{style}.{one}") for one in ("color", "backgroundColor"))
        contrast = luminance(text) - luminance(ground)
        assert contrast > 0.7 if scheme == "dark" else contrast < -0.7
        assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
