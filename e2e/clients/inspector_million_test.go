//go:build e2e && soak

package clients

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/producers"
)

var records = flag.Int("records", 1_000_000, "how many records the session of TestInspectorMillion has")

// The page opens a session of a million records, with the latest ones in its memory.
func TestInspectorMillion(t *testing.T) {
	w := newEnv(t)
	url := w.inspected()
	w.producer = w.NewWriter(producers.Config{Pace: time.Millisecond, MaxSessionBytes: producers.Off}) // the default ends a session at 64 MiB, and has a limit for each sub-agent
	run := w.start("s")
	began := time.Now()
	w.writeRounds(run, 0, *records/4)
	w.end(run)
	t.Logf("%d records were written in %s", *records, time.Since(began))
	tab := browsertest.Start(t)
	w.must(chromedp.Do(tab, chromedp.EmulateViewport(1280, 900)))
	began = time.Now()
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s?tab=timeline")))
	if _, err := chromedp.Run(tab, chromedp.Poll[bool](`document.body.dataset.connection === 'complete'`, chromedp.WithPollingTimeout(10*time.Minute))); err != nil {
		t.Fatal(err)
	}
	t.Logf("the page was complete after %s, with %d MB", time.Since(began), browsertest.Eval[int](tab, t, `Math.round(performance.memory.usedJSHeapSize / 1e6)`))
	for name, rows := range map[string]string{"conversation": ".part", "records": ".record", "delivery": ".delivery tr", "timeline": ".line"} {
		began = time.Now()
		browsertest.Eval[bool](tab, t, fmt.Sprintf(`document.getElementById('tab-%s').click() === undefined`, name))
		browsertest.Await(tab, t, fmt.Sprintf(`document.querySelectorAll(%q).length > 1`, rows), shown)
		t.Logf("%s: %s", name, time.Since(began))
	}
}
