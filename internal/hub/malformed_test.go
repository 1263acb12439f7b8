package hub_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// A thousand malformed messages at once are one log line, and the next line a second later has their number.
func TestMalformedMessagesAreLoggedOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer // read after the bubble is idle
		log := memlog.New()
		h := start(t, log, log, hub.Config{Log: slog.New(slog.NewTextHandler(&logged, nil))})
		log.Append(aRoot, chunk.TypeRunStarted, "")
		var reader sync.WaitGroup
		reader.Go(func() { readToEnd(t, h, 0) })
		synctest.Wait()
		for range 1000 {
			log.AppendMalformed(aRoot)
		}
		synctest.Wait()
		if got := strings.Count(logged.String(), "malformed message skipped"); got != 1 {
			t.Errorf("%d lines, want 1", got)
		}
		time.Sleep(time.Second)
		log.AppendMalformed(aRoot)
		log.Append(aRoot, chunk.TypeStreamEnd, "")
		reader.Wait()
		if got := logged.String(); strings.Count(got, "malformed message skipped") != 2 || !strings.Contains(got, "notLogged=999") {
			t.Errorf("logged %s", got)
		}
	})
}
