package parquet

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tailrace/tailrace/sink/row"
)

const testBucket = "lakes"

// newS3 starts an S3-compatible store over HTTP with an empty bucket. Requests go through wrap, if it is not nil.
func newS3(t *testing.T, wrap func(http.Handler) http.Handler) (location string) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(testBucket); err != nil {
		t.Fatal(err)
	}
	handler := gofakes3.New(backend).Server()
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return "s3://" + testBucket + "/a/lake?region=eu-west-1&endpoint=" + server.URL
}

func openS3(t *testing.T, location string) *Store {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s, err := OpenS3(location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestS3(t *testing.T) {
	location := newS3(t, nil)
	s := openS3(t, location)
	l := testLog{generation: 1, history: "history1", deletions: map[int64]string{63: "root-2"}}
	if err := commit(t.Context(), s, l, 13, 70); err != nil {
		t.Fatal(err)
	}
	again := openS3(t, location)
	if err := commit(t.Context(), again, l, 17, 100); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), l.position(70), l.batch(70, 78)); !errors.Is(err, row.ErrConflict) {
		t.Errorf("commit of the first process: %v, want ErrConflict", err)
	}
	if err := commit(t.Context(), s, l, 9, 120); err != nil {
		t.Fatal(err)
	}
	if err := s.Maintain(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	wantErased(t.Context(), t, s.objects, l, 120)

	views, _, err := read(t.Context(), s.objects, viewsName)
	if err != nil || !strings.Contains(string(views), "read_parquet('s3://"+testBucket+"/a/lake/events/*/*.parquet'") {
		t.Errorf("views.sql: %v\n%s", err, views)
	}
	if _, err := s.objects.open(t.Context(), "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of a missing object: %v", err)
	}
	if left, err := s.objects.list(t.Context(), "probe"); err != nil || len(left) > 0 {
		t.Errorf("objects of the check: %v, %v", left, err)
	}

	// DuckDB reads the same files from a directory, because its extension for S3 is a download.
	path := t.TempDir()
	for _, table := range tables {
		names, err := s.objects.list(t.Context(), table)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			data, _, err := read(t.Context(), s.objects, n.name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(path, filepath.Dir(n.name)), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(path, n.name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	copied := openDirectory(t, path)
	if _, err := copied.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	want := l.erased(l.batch(0, 120), 120)
	db := openLake(t, path)
	wantTable(t, db, tableEvents, "seq", want.Events)
	wantTable(t, db, "observations_current", "seq, id", want.Observations)
}

// TestS3LosesAnswers has a connection that ends after each request once, when the store has handled it. The client repeats the request, and the rows are stored once.
func TestS3LosesAnswers(t *testing.T) {
	l := testLog{generation: 1, history: "history1", deletions: map[int64]string{15: "root-1"}}
	for n, reached := int64(1), true; reached; n++ {
		var requests atomic.Int64
		location := newS3(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) != n {
					next.ServeHTTP(w, r)
					return
				}
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			})
		})
		s := openS3(t, location)
		if err := commit(t.Context(), s, l, 20, 20); err != nil {
			t.Fatalf("answer %d lost: %v", n, err)
		}
		if err := s.Maintain(t.Context(), time.Time{}); err != nil {
			t.Fatalf("answer %d lost: %v", n, err)
		}
		reached = requests.Load() >= n
		wantErased(t.Context(), t, s.objects, l, 20)
		if t.Failed() {
			t.Fatalf("answer %d lost", n)
		}
	}
}

// TestS3RefusesStores is a store that ignores a condition.
func TestS3RefusesStores(t *testing.T) {
	for _, header := range []string{"If-None-Match", "If-Match"} {
		location := newS3(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Del(header)
				next.ServeHTTP(w, r)
			})
		})
		if _, err := openS3(t, location).Begin(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "does not support "+header) {
			t.Errorf("store that ignores %s: %v", header, err)
		}
	}
	missing := strings.Replace(newS3(t, nil), testBucket, "others", 1)
	if _, err := openS3(t, missing).Begin(t.Context(), 1); err == nil {
		t.Error("a missing bucket is accepted")
	}
}

func TestOpenS3Refuses(t *testing.T) {
	for _, location := range []string{
		"http://bucket/prefix", "s3:///prefix", "s3://bucket/?endpoint=localhost:9000", "s3://bucket/?endpoint=ftp://host", "s3://bucket/?endpoint=https://host/path",
		"s3://bucket/?key=value", "s3://user:password@bucket/",
	} {
		_, err := OpenS3(location)
		if err == nil || strings.Contains(err.Error(), "password") {
			t.Errorf("%s: %v", location, err)
		}
	}
}
