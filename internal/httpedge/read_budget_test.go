package httpedge_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
)

func writeLong(w *env, s chunk.Session, bytes int) {
	for n := range 4 {
		w.log.Append(s, chunk.TypeRunStarted, fmt.Sprintf(`"runId":"r%d","epoch":1,"mode":"execute","input":[{"content":%q}]`, n, strings.Repeat("x", bytes/4)))
		w.log.Append(s, chunk.TypeStreamEnd, "")
	}
}

func readMetrics(t *testing.T, reg *prometheus.Registry) (bytes, rejected float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		switch f.GetName() {
		case "tailrace_edge_read_bytes":
			bytes = f.GetMetric()[0].GetGauge().GetValue()
		case "tailrace_edge_reads_rejected_total":
			rejected = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return bytes, rejected
}

// TestReadsShareABudget reads many long conversations at the same time: few of them are in memory at once, the rest are rejected with a retry time, and a short
// conversation is read meanwhile.
func TestReadsShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 2 << 20
		reg := prometheus.NewRegistry()
		w, reads, edge := pageEdge(t, httpedge.Config{ReadBytes: budget, Metrics: reg})
		var group sync.WaitGroup
		var mu sync.Mutex
		codes, tooMany := make(map[int]int), 0
		for n := range 50 {
			s := chunk.RootSession("default", fmt.Sprint("long", n))
			writeLong(w, s, 200<<10)
			group.Go(func() {
				rec := getPage(t.Context(), edge, "/v1/sessions/"+s.ID+"/snapshot")
				mu.Lock()
				defer mu.Unlock()
				codes[rec.Code]++
				if rec.Code == http.StatusServiceUnavailable && rec.Header().Get("Retry-After") == "" {
					t.Errorf("rejected without a retry time: %s", rec.Body)
				}
				if strings.Contains(rec.Body.String(), "TOO_MANY_READS") {
					tooMany++ // others have begun to read, and time out
				}
			})
		}
		go func() { // each attempt takes a second
			for range 1000 {
				time.Sleep(time.Second)
				select {
				case reads.release <- struct{}{}:
				case <-t.Context().Done():
					return
				}
			}
		}()
		for range 20 {
			time.Sleep(500 * time.Millisecond)
			if bytes, _ := readMetrics(t, reg); bytes > budget {
				t.Errorf("%v bytes in use, want at most %d", bytes, budget)
			}
		}
		group.Wait()
		bytes, rejected := readMetrics(t, reg)
		if codes[http.StatusOK] == 0 || codes[http.StatusServiceUnavailable] == 0 || codes[http.StatusOK]+codes[http.StatusServiceUnavailable] != 50 {
			t.Errorf("responses %v, want some complete and some rejected", codes)
		}
		if peak := reads.peak.Load(); peak > 6 || bytes != 0 || rejected != float64(tooMany) || tooMany < 40 {
			t.Errorf("%d reads at once, %v bytes left, %v counted as rejected of %d, %v", peak, bytes, rejected, tooMany, codes)
		}
	})
}

// TestSlowReaderHoldsItsPage checks that a page counts until it is written, and until the write deadline of a client that does not read it. Short pages are
// served meanwhile.
func TestSlowReaderHoldsItsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		w := newEnv(t, envConfig{edge: httpedge.Config{ReadBytes: 2 << 20, Metrics: reg, WriteTimeout: 2 * time.Second}})
		writeLong(w, s1, 300<<10)
		writeLong(w, chunk.RootSession("default", "other"), 100)
		conn, err := w.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprint(conn, "GET /v1/sessions/s1/snapshot HTTP/1.1\r\nHost: edge\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if bytes, _ := readMetrics(t, reg); bytes < 300<<10 || bytes > 310<<10 {
			t.Errorf("%v bytes in use during the write, want the text", bytes)
		}
		resp := w.get(t.Context(), "/v1/sessions/other/messages", nil)
		if resp.StatusCode != http.StatusOK || !strings.Contains(readAll(t, resp.Body), "xxx") {
			t.Errorf("a short page: %d", resp.StatusCode)
		}
		resp.Body.Close()
		time.Sleep(10 * time.Second)
		if bytes, _ := readMetrics(t, reg); bytes != 0 {
			t.Errorf("%v bytes in use after the write deadline", bytes)
		}
		if text, err := io.ReadAll(conn); err != nil || len(text) >= 300<<10 {
			t.Errorf("%d bytes, %v: the connection should be closed", len(text), err)
		}
	})
}

// TestKeptConnectionAfterAPage checks that the write deadline of a page does not end later responses on its connection.
func TestKeptConnectionAfterAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{edge: httpedge.Config{WriteTimeout: time.Second}})
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		for range 3 {
			resp := w.get(t.Context(), "/v1/sessions/s1/snapshot", nil)
			readAll(t, resp.Body)
			resp.Body.Close()
			time.Sleep(10 * time.Second)
			if resp = w.get(t.Context(), "/v1/sessions/unknown/snapshot", nil); resp.StatusCode != http.StatusNotFound {
				t.Errorf("after a page: %d", resp.StatusCode)
			}
			readAll(t, resp.Body)
			resp.Body.Close()
		}
	})
}

// TestUnlimitedReads checks that a negative budget rejects nothing.
func TestUnlimitedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, reads, edge := pageEdge(t, httpedge.Config{ReadBytes: -1})
		var group sync.WaitGroup
		for n := range 50 {
			s := chunk.RootSession("default", fmt.Sprint("long", n))
			writeLong(w, s, 20<<10)
			group.Go(func() {
				if rec := getPage(t.Context(), edge, "/v1/sessions/"+s.ID+"/snapshot"); rec.Code != http.StatusOK {
					t.Errorf("%d %s", rec.Code, rec.Body)
				}
			})
		}
		synctest.Wait()
		if n := reads.running.Load(); n != 50 {
			t.Errorf("%d reads at once, want 50", n)
		}
		close(reads.release)
		group.Wait()
	})
}

// A page of a session whose stored head has an open message above the memory for reads is refused: the head counts, although the page would show none of the message.
func TestOpenMessageAboveTheBudget(t *testing.T) {
	w := newEnv(t, envConfig{edge: httpedge.Config{ReadBytes: 2 << 20}})
	for id, text := range map[string]int{"large": 500 << 10, "fits": 200 << 10} {
		s := chunk.RootSession("default", id)
		w.log.Append(s, chunk.TypeRunStarted, `"runId":"r","epoch":1,"mode":"execute"`)
		w.log.Append(s, chunk.TypeTextDelta, fmt.Sprintf(`"delta":%q`, strings.Repeat("x", text)))
		w.snapshots.save(t, s)
	}
	for path, want := range map[string]int{"fits/messages?limit=1": 200, "fits/snapshot?messages=1": 200, "large/messages?limit=1": 413, "large/messages?limit=1&parts=1": 413, "large/snapshot?messages=1": 413} {
		resp := w.get(t.Context(), "/v1/sessions/"+path, nil)
		if body := readAll(t, resp.Body); resp.StatusCode != want || want == 413 && !strings.Contains(body, "CONTENT_TOO_LARGE") {
			t.Errorf("%s: %d %.200s, want %d", path, resp.StatusCode, body, want)
		}
		resp.Body.Close()
	}
}
