package natstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Process is a NATS server in a separate process, which can be killed. Its
// methods are called from the goroutine of the test.
type Process struct {
	// URL is the address of the server. Restart keeps it.
	URL string

	cfg config
	log *logTail
	run *running // current process, nil if it is down
}

// StartProcess starts a NATS server and waits until it accepts connections. The process ends
// with the test or with the test binary, even if the binary is killed.
func StartProcess(tb testing.TB, opts ...Option) *Process {
	tb.Helper()
	cfg := newConfig(tb, opts)
	cfg.Port = ReservePort(tb)
	p := newProcess(tb, cfg)
	p.Start(tb)
	return p
}

func newProcess(tb testing.TB, cfg config) *Process {
	tb.Helper()
	p := &Process{
		URL: "nats://" + Loopback + ":" + strconv.Itoa(cfg.Port),
		cfg: cfg,
		log: &logTail{},
	}
	tb.Cleanup(func() {
		if p.run != nil {
			p.Kill(tb)
		}
		cfg.checkViolations(tb, p.log)
		p.log.show(tb, cfg.Name)
	})
	return p
}

// Start restarts the process after Kill or Shutdown, on the same files and the
// same port, and waits until it accepts connections.
func (p *Process) Start(tb testing.TB) {
	tb.Helper()
	p.launch(tb)
	p.await(tb, "accept connections", func(s ProcessState) bool { return s.Ready })
}

// Restart kills the process if it runs, and starts it.
func (p *Process) Restart(tb testing.TB) {
	tb.Helper()
	if p.run != nil {
		p.Kill(tb)
	}
	p.Start(tb)
}

// Kill sends SIGKILL and waits for the exit. Data that the server had written
// to the operating system survives; data in its memory is lost.
func (p *Process) Kill(tb testing.TB) {
	tb.Helper()
	p.signal(tb, syscall.SIGKILL)
	p.wait(tb)
}

// Shutdown shuts the process down gracefully and waits for its exit.
func (p *Process) Shutdown(tb testing.TB) {
	tb.Helper()
	if err := p.running(tb).stdin.Close(); err != nil {
		tb.Fatalf("shut down server %s: %v", p.cfg.Name, err)
	}
	p.wait(tb)
}

// Stop freezes the process with SIGSTOP: connections stay open and requests get
// no answer. It returns when the process is stopped.
func (p *Process) Stop(tb testing.TB) {
	tb.Helper()
	p.signal(tb, syscall.SIGSTOP)
	p.running(tb).awaitStopped(tb)
}

// Cont resumes a stopped process.
func (p *Process) Cont(tb testing.TB) {
	tb.Helper()
	p.signal(tb, syscall.SIGCONT)
}

// Reload replaces the configuration that ServerConfig has given, while the
// server runs, and returns when the server has it, see Server.Reload.
func (p *Process) Reload(tb testing.TB, text string) {
	tb.Helper()
	run := p.running(tb)
	before, _, _ := run.state()
	p.cfg.Text = text
	if err := json.NewEncoder(run.stdin).Encode(p.cfg.ProcessConfig); err != nil {
		tb.Fatalf("reload server %s: %v", p.cfg.Name, err)
	}
	p.await(tb, "reload", func(s ProcessState) bool { return s.Reloads > before.Reloads })
}

// AwaitLeafNode waits until a leaf node is connected.
func (p *Process) AwaitLeafNode(tb testing.TB) {
	tb.Helper()
	p.await(tb, "have a leaf node", func(s ProcessState) bool { return s.LeafNodes > 0 })
}

// PID returns the id of the current process.
func (p *Process) PID(tb testing.TB) int {
	tb.Helper()
	return p.running(tb).cmd.Process.Pid
}

// Conn returns a new connection. It closes with the test.
func (p *Process) Conn(tb testing.TB, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return Connect(tb, p.URL, opts...)
}

// JetStream returns a JetStream context on a new connection.
func (p *Process) JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	return newJetStream(tb, p.Conn(tb, opts...))
}

func (p *Process) running(tb testing.TB) *running {
	tb.Helper()
	if p.run == nil {
		tb.Fatalf("server %s is not running", p.cfg.Name)
	}
	return p.run
}

func (p *Process) signal(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if err := p.running(tb).cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatalf("send %s to server %s: %v", sig, p.cfg.Name, err)
	}
}

// launch starts the process without waiting for the server in it.
func (p *Process) launch(tb testing.TB) {
	tb.Helper()
	if p.run != nil {
		tb.Fatalf("server %s is already running", p.cfg.Name)
	}
	run, err := runProcess(p.cfg, p.log)
	if err != nil {
		tb.Fatalf("start server %s: %v", p.cfg.Name, err)
	}
	p.run = run
}

// await waits for a state of the running process.
func (p *Process) await(tb testing.TB, what string, ok func(ProcessState) bool) {
	tb.Helper()
	if err := p.running(tb).await(ok); err != nil {
		tb.Fatalf("wait for server %s to %s: %v", p.cfg.Name, what, err)
	}
}

// wait waits for the exit of the process and clears p.run.
func (p *Process) wait(tb testing.TB) {
	tb.Helper()
	run := p.running(tb)
	select {
	case <-run.ended:
	case <-time.After(WaitTimeout):
		tb.Fatalf("server %s did not exit", p.cfg.Name)
	}
	p.run = nil
}

// running is one incarnation of a Process. It owns one goroutine, which reads
// the reports of the child and ends with it.
type running struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when the process has exited and all its reports were read

	mu      sync.Mutex // guards the fields below
	now     ProcessState
	fatal   string
	changed chan struct{} // closed and replaced at each change
}

func runProcess(cfg config, log *logTail) (*running, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path) //nolint:gosec,noctx // the lifetime of the program is that of Process, not of a context
	cmd.Stderr = os.Stderr    // panics
	cmd.SysProcAttr = dieWithParent()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	run := &running{cmd: cmd, stdin: stdin, ended: make(chan struct{}), changed: make(chan struct{})}
	go run.listen(stdout, log)
	return run, json.NewEncoder(stdin).Encode(cfg.ProcessConfig)
}

// listen reads the reports of the child until it exits.
func (r *running) listen(stdout io.Reader, log *logTail) {
	defer close(r.ended)
	dec := json.NewDecoder(stdout)
	for {
		var rep ProcessReport
		if err := dec.Decode(&rep); err != nil {
			break // end of output
		}
		if rep.Log != "" {
			log.keep(rep.Log)
		}
		r.apply(rep)
	}
	if err := r.cmd.Wait(); err != nil {
		log.keep("process: " + err.Error())
	}
}

func (r *running) apply(rep ProcessReport) {
	if rep.State == nil && rep.Fatal == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if rep.State != nil {
		r.now = *rep.State
	}
	if rep.Fatal != "" {
		r.fatal = rep.Fatal
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *running) state() (now ProcessState, fatal string, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now, r.fatal, r.changed
}

// await returns when ok accepts the state, or the reason why it cannot.
func (r *running) await(ok func(ProcessState) bool) error {
	timeout := time.NewTimer(WaitTimeout)
	defer timeout.Stop()
	for {
		now, fatal, changed := r.state()
		switch {
		case fatal != "":
			return errors.New(fatal)
		case ok(now):
			return nil
		}
		select {
		case <-changed:
		case <-r.ended:
			if _, fatal, _ := r.state(); fatal != "" {
				return errors.New(fatal)
			}
			return errors.New("process exited")
		case <-timeout.C:
			return fmt.Errorf("timeout after %s: %+v", WaitTimeout, now)
		}
	}
}

// awaitStopped waits until the kernel reports the process as stopped: sending
// SIGSTOP returns before the target is stopped.
func (r *running) awaitStopped(tb testing.TB) {
	tb.Helper()
	var info syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(r.cmd.Process.Pid, &info, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid != r.cmd.Process.Pid || !info.Stopped() {
			tb.Fatalf("wait for the process to stop: %v, status %v", err, info)
		}
		return
	}
}
