package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// jobs are the commands that end by themselves.
var jobs = map[string][]string{"copy": {"--no-follow", "--ops-listen="}, "check": {"check"}, "erase": {"erase", "--deleted"}}

// A command that ends by itself says that there is no server, and has an exit code of its own when it ends because of that.
func TestJobWithoutServer(t *testing.T) {
	for name, args := range jobs {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var errs outputtest.Buffer
			ended := make(chan int, 1)
			go func() {
				ended <- program(ctx, append(args, "--nats-url=nats://127.0.0.1:1", "--to="+t.TempDir()), io.Discard, &errs)
			}()
			natstest.Eventually(t, "a line", func(context.Context) error {
				if text := errs.String(); text != "no NATS server at nats://127.0.0.1:1: start \"tailrace up\" or set TAILRACE_NATS_URL\n" {
					return fmt.Errorf("got %s", text)
				}
				return nil
			})
			stop()
			<-ended
		})
	}
	if code := exitCode(fmt.Errorf("%w to a server", jsclient.ErrNoServer), io.Discard, io.Discard); code != 3 {
		t.Errorf("exit code %d", code)
	}
}

// With the key of another role such a command ends with the role whose key it wants, and without the streams with the first one.
func TestJobWithWrongServer(t *testing.T) {
	users := roletest.New(t, natsauth.Config{})
	locked := streamtest.Start(t, users.Server())
	empty := natstest.Start(t)
	for name, args := range jobs {
		for want, flags := range map[string][]string{
			"want the key of the role analytics, ": {"--nats-url=" + locked.URL, "--nats-nkey=" + users.Seed(natsauth.Worker)},
			"stream TR_CHUNKS_0: ":                 {"--nats-url=" + empty.URL, "--nats-nkey="},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var errs strings.Builder
			code := program(ctx, append(append(slices.Clip(args), "--to="+t.TempDir()), flags...), io.Discard, &errs)
			if code != 1 || ctx.Err() != nil || !strings.Contains(errs.String(), want) {
				t.Errorf("%s: exit code %d, %s, want %s", name, code, errs.String(), want)
			}
			cancel()
		}
	}
}
