// Package browsertest starts a headless Chromium for a test.
//
//	browser := browsertest.Start(t)
//	err := chromedp.Do(browser, chromedp.Navigate(url))
//
// If Chromium is missing, the test fails with the command that installs it.
package browsertest

import (
	"context"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

// Start returns the context of a browser with an empty page and an empty
// profile. The browser closes with the test.
func Start(tb testing.TB) context.Context {
	tb.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(find(tb)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(tb.TempDir()),
		// On a machine without internet access each of these logs hundreds of
		// errors.
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true),
	)
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	browser, closeBrowser := chromedp.NewContext(alloc)
	tb.Cleanup(func() {
		if err := chromedp.Cancel(browser); err != nil {
			tb.Logf("close chromium: %v", err)
		}
		closeBrowser()
		cancel()
	})
	// The browser closes when the context of its first use ends: no deadline
	// here.
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
		tb.Fatalf("start chromium: %v", err)
	}
	return browser
}

func find(tb testing.TB) string {
	tb.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	tb.Fatal("chromium not found; `make chromium` installs it")
	return ""
}
