"""The page of the studio in a real browser: a folder of images, and a server that goes."""

import subprocess
import sys

import numpy as np
import pytest
from browsers import keep, needs_browser, screenshot
from PIL import Image
from studio_page import expected, finished, noisy_part, shown, text, until

pytestmark = needs_browser


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "scans & <more>"
    folder.mkdir()
    for k in range(5):
        image = np.clip(noisy_part(k, 64, 80), 0, 255).astype(np.uint8)
        Image.fromarray(image).save(folder / f"scan {k}.png")
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nonsense")
    return folder


def states(driver):
    return driver.execute_script("return Object.fromEntries([...document.querySelectorAll('#folder-files li')].map(li => [li.querySelector('span').textContent, li.dataset.state]))")  # fmt: skip


def test_a_folder_is_denoised_with_the_settings_of_one_of_its_images(laptop, folder, tmp_path):
    with shown(laptop, tmp_path, folder) as driver:
        until(driver, "document.querySelectorAll('#folder-files li').length === 6")
        assert text(driver, "folder-name") == "scans & <more>"
        driver.execute_script("[...document.querySelectorAll('#folder-files .item')].find(item => item.textContent.startsWith('scan 0')).click()")  # fmt: skip
        until(driver, "document.getElementById('name').textContent === 'scan 0.png'")
        finished(driver)
        driver.execute_script("document.querySelector('[name=method][value=fast]').click()")
        finished(driver)
        keep("studio-folder", screenshot(driver))

        # Saved beside the original, and never over another file unless that is meant.
        target = folder / "scan 0_denoised.png"
        driver.find_element("id", "save").click()
        until(driver, "document.getElementById('saved').textContent.startsWith('Saved')")
        fast = np.asarray(Image.open(expected(folder / "scan 0.png", method="fast")))
        (folder / "expected-fast.png").unlink()
        np.testing.assert_array_equal(np.asarray(Image.open(target)), fast)
        target.write_bytes(b"mine")
        driver.find_element("id", "save").click()
        until(driver, "document.getElementById('replace').open")
        assert "scan 0_denoised.png" in text(driver, "replace-words")
        keep("studio-replace", screenshot(driver))
        driver.switch_to.active_element.click()  # keep it
        until(driver, "!document.getElementById('replace').open")
        assert target.read_bytes() == b"mine"
        driver.find_element("id", "save").click()
        until(driver, "document.getElementById('replace').open")
        driver.find_element("css selector", "#replace [value=yes]").click()
        until(driver, "document.getElementById('saved').textContent.startsWith('Saved')")
        np.testing.assert_array_equal(np.asarray(Image.open(target)), fast)

        # The rest: stopped, and resumed.
        driver.find_element("id", "run").click()
        until(driver, "!document.getElementById('stop').hidden || document.querySelector('#folder-files li[data-state=done]')")  # fmt: skip
        driver.execute_script("document.getElementById('stop').click()")  # it may just have ended
        until(driver, "document.getElementById('stop').hidden")
        stopped = states(driver)
        if "waiting" in stopped.values():  # it was quick enough
            driver.find_element("id", "run").click()
        until(driver, "[...document.querySelectorAll('#folder-files li')].every(li => !['waiting', 'running'].includes(li.dataset.state)) && document.getElementById('stop').hidden")  # fmt: skip
        over = states(driver)
        assert over["broken.png"] == "failed"
        assert {over[f"scan {k}.png"] for k in range(5)} <= {"done", "skipped"}
        keep("studio-folder-done", screenshot(driver))
        assert "1 failed" in text(driver, "folder-words")
        for k in range(1, 5):
            fast = np.asarray(Image.open(expected(folder / f"scan {k}.png", method="fast")))
            (folder / "expected-fast.png").unlink()
            np.testing.assert_array_equal(np.asarray(Image.open(folder / f"scan {k}_denoised.png")), fast)  # fmt: skip


def test_when_the_server_is_killed_the_page_says_so(laptop):
    command = [sys.executable, "-m", "nlridge", "studio", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip()
        laptop.get(address)
        until(laptop, "document.querySelectorAll('#methods label').length > 3")
        message = laptop.find_element("id", "gone")
        assert not message.is_displayed()
        server.kill()
        server.wait()
        until(laptop, "!document.getElementById('gone').hidden")
        assert message.get_attribute("role") == "alert"
        assert "has stopped or cannot be reached" in message.text
        keep("studio-gone", screenshot(laptop))
        server.stdout.close()
        port = address.split(":")[2].split("/")[0]
        server = subprocess.Popen([*command, "--port", port], stdout=subprocess.PIPE, text=True)
        assert server.stdout.readline()
        until(laptop, "document.getElementById('gone').textContent.includes('was restarted')")
    finally:
        laptop.get("about:blank")
        server.kill()
        server.wait()
        server.stdout.close()
