package retention

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
)

// An ended run of 10,000 chunks, scattered among 300,000 messages of others:
// from the log and from its archive, alternately.
func BenchmarkReplay(b *testing.B) {
	const chunks, others = 10_000, 300_000
	w := newArchiveEnv(b, ArchiverConfig{})
	text := func(i int) string {
		words := []string{"the", "river", "of", "an", "answer", "as", "a", "model", "says", "it", "one", "delta", "after", "another", "until", "all", "is", "told"}
		return " " + words[i%7] + " " + words[i*i%18] + " " + words[i/3%13]
	}
	stored := 0
	for i := range chunks {
		w.enqueue(alice, chunk.TextDelta{Delta: text(i)})
		stored += len(w.message(alice, 1, 1, chunk.TextDelta{Delta: text(i)}).Data)
		for j := range others / chunks {
			n := i*others/chunks + j
			w.enqueue(chunk.RootSession("acme", fmt.Sprint("other", n*7919%3000)), chunk.TextDelta{Delta: text(n)})
		}
		if i%30 == 0 {
			<-w.js.PublishAsyncComplete()
		}
	}
	<-w.js.PublishAsyncComplete()
	w.put(alice, 1, chunk.StreamEnd{StreamID: "x"})
	began := time.Now()
	w.archiveSession(alice)
	took := time.Since(began)
	info, err := w.bucket().Info(b.Context())
	w.must(err)
	read := func(r *consumers.Reader) time.Duration {
		began := time.Now()
		n := 0
		for _, err := range r.Replay(b.Context(), chunk.Range{Session: alice}) {
			w.must(err)
			n++
		}
		if n != chunks+1 {
			b.Fatalf("%d records", n)
		}
		return time.Since(began)
	}
	var log, archive time.Duration
	b.ReportAllocs()
	for b.Loop() {
		log += read(w.plain)
		archive += read(w.archives)
	}
	if got := w.archives.Stats().Archived; got != uint64(b.N)*(chunks+1) {
		b.Fatalf("%d records from the archive", got)
	}
	b.ReportMetric(float64(log.Milliseconds())/float64(b.N), "log-ms")
	b.ReportMetric(float64(archive.Microseconds())/1000/float64(b.N), "archive-ms")
	b.ReportMetric(log.Seconds()/archive.Seconds(), "times-faster")
	b.ReportMetric(float64(took.Milliseconds()), "to-archive-ms")
	b.ReportMetric(float64(info.State.Bytes)/1024, "archive-KiB")
	b.ReportMetric(float64(stored)/1024, "bodies-KiB")
}

func (w *archiveEnv) enqueue(s chunk.Session, body chunk.Body) {
	w.tb.Helper()
	w.next[s]++
	_, err := w.js.PublishMsgAsync(w.message(s, 1, w.next[s], body))
	w.must(err)
}
