package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace/tailrace/sink/internal/pgtest"
)

// TestKill ends the process of the connection with SIGKILL, and the whole server, in commits. The server waits for the disk.
func TestKill(t *testing.T) {
	server, err := pgtest.Start("fsync=on", "full_page_writes=on")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	url := server.URL("postgres")
	proxy := server.Proxy(t)
	s := openStore(t, proxy.Through(url))
	kill := func() error {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return err
		}
		var pid int
		if err := errors.Join(conn.QueryRow(t.Context(), backends).Scan(&pid), conn.Close(t.Context())); err != nil {
			return err
		}
		return server.KillBackend(pid)
	}
	crash := func() error { return errors.Join(server.Crash(), server.Restart()) }
	log, expected := longLog(), newModel()
	at := begin(t, s)
	for _, part := range []string{"copy", "data", "commit"} {
		for i, end := range []func() error{kill, crash} {
			t.Run(fmt.Sprintf("%s %d", part, i), func(t *testing.T) {
				records := log[:40]
				log = log[40:]
				b := batchOf(records)
				if err := s.createMonths(t.Context(), b.Events); err != nil {
					t.Fatal(err)
				}
				began, ended := false, make(chan error, 1)
				proxy.Watch(func(m pgtest.Message) pgtest.Action {
					if !began && (m.Type == 'd' && part == "data" || m.Type == 'Q' && strings.HasPrefix(m.Text, part)) {
						began = true
						ended <- end()
					}
					return pgtest.Relay
				})
				err := s.Commit(t.Context(), at, b)
				proxy.Watch(nil)
				if err == nil {
					t.Fatal("commit returned no error")
				}
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				if now := begin(t, s); now != at {
					t.Fatalf("position is %v, want %v", now, at)
				}
				if err := s.Commit(t.Context(), at, b); err != nil {
					t.Fatal(err)
				}
				at = b.Through
				expected.apply(records)
			})
		}
	}
	if err := crash(); err != nil {
		t.Fatal(err)
	}
	if now := begin(t, s); now != at {
		t.Errorf("position is %v, want %v", now, at)
	}
	conn := connect(t, url)
	compare(t, "rows", expected.contents(), read(t.Context(), t, conn))
	checkSessions(t.Context(), t, conn)
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
