package jscontrol

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
)

// BenchmarkHeld measures what the renewals of maxWaiting commands cost that one worker holds, and whether it keeps them: messages and CPU per second, of the
// worker and of each server. A worker that is saturated returns four commands a second; the server would redeliver thousands if renewals came too late.
func BenchmarkHeld(b *testing.B) {
	b.Run("R1", func(b *testing.B) {
		srv := natstest.StartProcess(b)
		js := srv.JetStream(b)
		streamtest.Ensure(b, js, topology.Config{})
		benchmarkHeld(b, js, srv)
	})
	b.Run("R3", func(b *testing.B) {
		cluster := streamtest.StartCluster(b)
		benchmarkHeld(b, cluster.JetStream(b), cluster.Node(0), cluster.Node(1), cluster.Node(2))
	})
}

func benchmarkHeld(b *testing.B, js jetstream.JetStream, servers ...*natstest.Process) {
	b.Helper()
	q := newQueue(b, js, QueueConfig{Concurrency: 1})
	publishBacklog(b, q, large, maxWaiting+2)
	done := make(chan struct{}, 1)
	done <- struct{}{} // the first command ends, so that the worker fetches everything
	w := serve(b, q, func(ctx context.Context, _ control.Command) error {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	natstest.Eventually(b, "a worker that holds everything", func(ctx context.Context) error {
		return fetchedAll(ctx, js)
	})
	const during = 20 * time.Second
	cpu := func() (self, all time.Duration) {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			b.Fatal(err)
		}
		for _, s := range servers {
			all += cpuOf(b, s.PID(b))
		}
		return time.Duration(used.Utime.Nano() + used.Stime.Nano()), all
	}
	before := js.Conn().Stats().OutMsgs
	self, all := cpu()
	<-time.After(during)
	selfAfter, allAfter := cpu()
	per := func(n float64) float64 { return n / during.Seconds() }
	b.ReportMetric(per(float64(js.Conn().Stats().OutMsgs-before)), "messages/s")
	b.ReportMetric(per((selfAfter-self).Seconds())*100, "%worker-cpu")
	b.ReportMetric(per((allAfter-all).Seconds())*100/float64(len(servers)), "%server-cpu")
	consumer, err := js.Consumer(b.Context(), "TR_COMMANDS", "agent-support")
	if err != nil {
		b.Fatal(err)
	}
	batch, err := consumer.FetchNoWait(maxWaiting)
	if err != nil {
		b.Fatal(err)
	}
	redelivered := 0
	for range batch.Messages() {
		redelivered++
	}
	if b.ReportMetric(float64(redelivered), "redelivered"); redelivered > 10*int(during.Seconds()) {
		b.Errorf("%d commands were redelivered, want a few for each second: %v", redelivered, batch.Error())
	}
	w.stop(b)
}

// cpuOf returns the CPU time of a process.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * time.Second / 100
}
