// Package chromiumtest gives a test a headless Chromium of its own.
//
//	browser := chromiumtest.Start(t)
//	err := chromedp.Do(browser, chromedp.Navigate(url))
//
// A machine without one fails the test and says what installs it.
package chromiumtest

import (
	"context"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

// Start returns the context of a browser with an empty page and an empty
// profile. It ends with the test.
func Start(tb testing.TB) context.Context {
	tb.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(find(tb)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(tb.TempDir()),
		// A machine without the internet refuses these by the hundred.
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true),
	)
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	browser, closeBrowser := chromedp.NewContext(alloc)
	tb.Cleanup(func() {
		if err := chromedp.Cancel(browser); err != nil {
			tb.Logf("chromium did not close in good order: %v", err)
		}
		closeBrowser()
		cancel()
	})
	// The first context a browser is used with is its life: no deadline here.
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
		tb.Fatalf("chromium: %v", err)
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
	tb.Fatal("Chromium is missing: `make chromium` installs it")
	return ""
}
