//go:build e2e && soak

package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

var soak = flag.Duration("soak", 10*time.Minute, "how long the streams of the soak test are open")

const (
	soakStreams   = 10_000
	soakSessions  = 500
	soakProcesses = 4               // processes of followers
	soakPace      = 5 * time.Second // interval of each session
	soakEvery     = 10 * time.Second
)

// One edge has 10,000 open streams of 500 sessions that are written every five
// seconds. The memory of the edge stays constant, no stream is cut, and at the
// end each follower has received the log of its session.
func TestSoak(t *testing.T) {
	raiseDescriptors(t, soakStreams+500)
	server := natstest.StartProcess(t)
	rec := startWriters(t, server.URL, soakSessions, soakPace)
	// The small memory of the hub is full before the first sample, so that
	// growth after it is not caused by caching.
	edge := startEdge(t, server.URL, "--heartbeat", "15s", "--memory", "8000000")
	processes := make([]*followerProcess, soakProcesses)
	for i := range processes {
		job := remoteJob{Addr: edge.addr}
		for n := i; n < soakStreams; n += soakProcesses {
			job.Sessions = append(job.Sessions, rec.writers[n%soakSessions].root.ID)
		}
		processes[i] = startFollowerProcess(t, job)
	}
	for _, c := range processes {
		c.awaitAttached(t)
	}
	samples := sampleFor(t, edge, *soak)
	rec.stop(t)
	checkRemotes(t, rec, processes)
	checkFlat(t, samples)
}

// raiseDescriptors raises the soft limit of open files of this process and its
// children to the hard limit.
func raiseDescriptors(t *testing.T, want uint64) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < want {
		t.Fatalf("limit of open files is %d, want %d: raise the hard limit (ulimit -Hn)", limit.Max, want)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit.Cur, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
}

// sample is the state of the edge at one time.
type sample struct {
	at         time.Duration
	resident   float64 // MiB
	goroutines float64
}

// sampleFor samples the edge periodically and logs a table.
func sampleFor(t *testing.T, edge *edgeProcess, length time.Duration) []sample {
	t.Helper()
	t.Logf("%d streams on one edge", soakStreams)
	t.Logf("%8s  %12s  %10s", "time", "resident MiB", "goroutines")
	tick := time.NewTicker(soakEvery)
	defer tick.Stop()
	var samples []sample
	for began := time.Now(); time.Since(began) < length; <-tick.C {
		s := sample{
			at:         time.Since(began),
			resident:   float64(residentBytes(t, edge.cmd.Process.Pid)) / (1 << 20),
			goroutines: edge.metric(t, "go_goroutines"),
		}
		samples = append(samples, s)
		t.Logf("%8s  %12.1f  %10.0f", s.at.Round(time.Second), s.resident, s.goroutines)
	}
	return samples
}

// checkFlat compares the last fifth of the time with the second fifth: of ten
// minutes, the last two with minutes two to four.
func checkFlat(t *testing.T, samples []sample) {
	t.Helper()
	n := len(samples)
	early, late := samples[n/5:n*2/5], samples[n*4/5:]
	if len(early) == 0 {
		t.Fatalf("%d samples are too few to compare: increase -soak", n)
	}
	for name, figure := range map[string]func(sample) float64{
		"resident memory in MiB": func(s sample) float64 { return s.resident },
		"number of goroutines":   func(s sample) float64 { return s.goroutines },
	} {
		before, after := medianOf(early, figure), medianOf(late, figure)
		t.Logf("%s: median %.1f from %s to %s, %.1f from %s on", name, before, early[0].at.Round(time.Second), early[len(early)-1].at.Round(time.Second), after, late[0].at.Round(time.Second))
		if after > before*1.1 || after < before*0.9 {
			t.Errorf("the %s is not flat: %.1f, later %.1f", name, before, after)
		}
	}
}

func medianOf(samples []sample, figure func(sample) float64) float64 {
	figures := make([]float64, len(samples))
	for i, s := range samples {
		figures[i] = figure(s)
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// followerProcess is a process of followers.
type followerProcess struct {
	size    int
	reports chan remoteReport // closed when the process has exited
}

func startFollowerProcess(t *testing.T, job remoteJob) *followerProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), remoteVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &followerProcess{size: len(job.Sessions), reports: make(chan remoteReport, len(job.Sessions)+1)}
	go func() {
		defer close(c.reports)
		for dec := json.NewDecoder(stdout); ; {
			var r remoteReport
			if err := dec.Decode(&r); err != nil {
				return // the process has exited
			}
			c.reports <- r
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		for range c.reports {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("a process of followers: %v", err)
		}
	})
	return c
}

// next returns the next report.
func (c *followerProcess) next(t *testing.T) remoteReport {
	t.Helper()
	select {
	case r, ok := <-c.reports:
		if !ok {
			t.Fatal("a process of followers exited too early")
		}
		return r
	case <-time.After(2 * time.Minute):
		t.Fatal("timeout: no report of followers within two minutes")
	}
	return remoteReport{}
}

func (c *followerProcess) awaitAttached(t *testing.T) {
	t.Helper()
	if r := c.next(t); !r.Attached {
		t.Fatalf("a follower of %s ended too early: %v %s", r.Session, r.Answers, r.Failed)
	}
}

// checkRemotes compares the events of each follower with the log, and checks
// that no stream was cut.
func checkRemotes(t *testing.T, c *recorders, processes []*followerProcess) {
	t.Helper()
	logs := make(map[string]tally)
	for _, v := range c.writers {
		var want tally
		for _, e := range c.log(t, v.root) {
			want.add(e)
		}
		logs[v.root.ID] = want
	}
	events := 0
	var wrong []error
	for _, process := range processes {
		for range process.size {
			r := process.next(t)
			events += r.Tally.Events
			if err := checkReport(r, logs[r.Session]); err != nil {
				wrong = append(wrong, err)
			}
		}
	}
	t.Logf("%d events of %d sessions were delivered", events, len(logs))
	if len(wrong) > 0 {
		t.Errorf("%d followers are wrong, the first of them: %v", len(wrong), errors.Join(wrong[:min(10, len(wrong))]...))
	}
}

func checkReport(r remoteReport, want tally) error {
	switch {
	case r.Failed != "":
		return errors.New(r.Failed)
	case r.Tally != want:
		return fmt.Errorf("%s: %d events, the log has %d, or they differ", r.Session, r.Tally.Events, want.Events)
	case !reflect.DeepEqual(r.Answers, map[int]int{http.StatusOK: 1, http.StatusNoContent: 1}):
		return fmt.Errorf("%s: statuses %v, want one stream and one 204", r.Session, r.Answers)
	}
	return nil
}
