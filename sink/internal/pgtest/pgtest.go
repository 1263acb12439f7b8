// Package pgtest runs a Postgres server for the tests of a package.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestX(t *testing.T) { url := pgtest.Database(t) … }
package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// Password is the password of the role that tests use. It must be in no error.
const Password = "canary-of-the-password"

const role = "tailrace"

// Server is a server with a cluster of its own.
type Server struct {
	dir     string // has the data, the socket and the file of the password
	bin     string
	options []string
	user    *syscall.Credential // that runs Postgres, which refuses root; nil is the user of this process
	process *exec.Cmd
	ready   chan struct{} // has a value for each time the server has become ready
	stopped chan struct{} // closed when the process has ended
}

// Start creates a cluster and starts its server. The options are those of postgres.
func Start(options ...string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, options: options}
	if os.Getuid() == 0 {
		s.user, err = unprivileged()
	}
	if err == nil {
		err = s.initialize()
	}
	if err == nil {
		err = s.Restart()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// binaries returns the directory of initdb and postgres.
func binaries() (string, error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	if out, err := exec.CommandContext(context.Background(), "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, dir := range slices.Backward(dirs) {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the tests need initdb and postgres of Postgres 13 or later: run scripts/postgres.sh")
}

func (s *Server) initialize() error {
	passwordFile := filepath.Join(s.dir, "password")
	if err := os.WriteFile(passwordFile, []byte(Password), 0o600); err != nil {
		return err
	}
	if s.user != nil {
		for _, path := range []string{s.dir, passwordFile} {
			if err := os.Chown(path, int(s.user.Uid), int(s.user.Gid)); err != nil {
				return err
			}
		}
	}
	args := []string{
		"--pgdata", s.data(), "--username", role, "--pwfile", passwordFile, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync",
	}
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, "initdb"), args...) //nolint:gosec // a program of the system
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func unprivileged() (*syscall.Credential, error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.LookupId("65534") // a user without rights, whose name differs between systems
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Restart starts the server after Start, Stop or Crash, and returns when it accepts connections.
func (s *Server) Restart() error {
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "shared_buffers=64MB", "-c", "max_connections=50"}
	for _, option := range s.options {
		args = append(args, "-c", option)
	}
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, "postgres"), args...) //nolint:gosec // a program of the system
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user, Pdeathsig: syscall.SIGQUIT}
	log, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.process, s.ready, s.stopped = cmd, make(chan struct{}), make(chan struct{})
	go follow(cmd, log, s.ready, s.stopped)
	return s.waitReady()
}

func (s *Server) waitReady() error {
	select {
	case <-s.ready:
		return nil
	case <-s.stopped:
		return errors.New("postgres ended before it was ready")
	}
}

// KillBackend ends the process of a connection with SIGKILL. The server ends all connections then and recovers, and KillBackend returns when it is ready again.
func (s *Server) KillBackend(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	return s.waitReady()
}

// follow reads the log of a server until it ends.
func follow(cmd *exec.Cmd, log io.Reader, ready chan<- struct{}, stopped chan struct{}) {
	defer close(stopped)
	var starting []string // lines since the start
	isReady := false
	for scanner := bufio.NewScanner(log); scanner.Scan(); {
		if strings.Contains(scanner.Text(), "database system is ready to accept connections") {
			isReady = true
			ready <- struct{}{}
		}
		if !isReady {
			starting = append(starting, scanner.Text())
		}
	}
	if err := cmd.Wait(); err != nil && !isReady {
		fmt.Fprintf(os.Stderr, "postgres: %v\n%s\n", err, strings.Join(starting, "\n"))
	}
}

// Crash ends the server at once, without a checkpoint. Its next start recovers from the log of Postgres.
func (s *Server) Crash() error { return s.stop(syscall.SIGQUIT) }

func (s *Server) stop(signal syscall.Signal) error {
	if err := s.process.Process.Signal(signal); err != nil {
		return err
	}
	<-s.stopped
	return nil
}

// Close stops the server and removes its cluster.
func (s *Server) Close() error { return errors.Join(s.Crash(), os.RemoveAll(s.dir)) }

// Socket returns the path of the Unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// URL returns the URL of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://%s:%s@/%s?%s", role, Password, database, url.Values{"host": {s.dir}}.Encode())
}

var shared *Server

// Main starts a server for the tests of a package, runs them and ends the process. The server does not wait for the disk.
func Main(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	server, err := Start("fsync=off")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = server
	code := m.Run()
	if err := errors.Join(server.Close(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var databases atomic.Int64

// Database creates a database in the server of the package, and returns its URL. It is dropped at the end of the test.
func Database(tb testing.TB) string {
	tb.Helper()
	return shared.Database(tb)
}

// Database creates a database, and returns its URL. It is dropped at the end of the test.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	s.exec(tb, "CREATE DATABASE "+name)
	tb.Cleanup(func() { s.exec(tb, "DROP DATABASE "+name+" WITH (FORCE)") })
	return s.URL(name)
}

func (s *Server) exec(tb testing.TB, statement string) {
	tb.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		tb.Fatal(err)
	}
	_, err = conn.Exec(ctx, statement)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		tb.Fatal(err)
	}
}

// Copy returns the URL of a copy of a database, to which no connection may be open.
func Copy(tb testing.TB, database string) string {
	tb.Helper()
	u, err := url.Parse(database)
	if err != nil {
		tb.Fatal(err)
	}
	name := fmt.Sprintf("test%d", databases.Add(1))
	shared.exec(tb, "CREATE DATABASE "+name+" TEMPLATE "+u.Path[1:])
	tb.Cleanup(func() { shared.exec(tb, "DROP DATABASE "+name+" WITH (FORCE)") })
	return shared.URL(name)
}
