package parquet

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	defaultEndpoint = "https://s3.amazonaws.com"

	// s3Timeout is the timeout of a call with its repetitions. It is less than the 15 minutes for which a signature is valid, so a request of a call that ended is
	// not accepted much later.
	s3Timeout = 5 * time.Minute
	s3Retries = 5
)

// bucket are the objects below a prefix of a bucket.
type bucket struct {
	client *minio.Client
	name   string
	prefix string // empty, or ends with a slash
	probed atomic.Bool
}

// OpenS3 returns the lake at s3://bucket/prefix?endpoint=…&region=…. The endpoint is the URL of an S3-compatible store, by default that of AWS. The keys are those of
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of the file of AWS_SHARED_CREDENTIALS_FILE, or of the instance. Begin refuses a store that ignores If-None-Match or
// If-Match.
func OpenS3(location string) (*Store, error) {
	// Errors do not contain the location, in which a user may have written a key.
	malformed := errors.New("malformed location of a lake: want s3://bucket/prefix?endpoint=URL&region=NAME")
	u, err := url.Parse(location)
	if err != nil {
		return nil, malformed
	}
	query := u.Query()
	endpoint, region := query.Get("endpoint"), query.Get("region")
	query.Del("endpoint")
	query.Del("region")
	if u.Scheme != "s3" || u.Host == "" || len(query) > 0 || u.User != nil {
		return nil, malformed
	}
	if endpoint == "" {
		endpoint = defaultEndpoint
	}
	e, err := url.Parse(endpoint)
	if err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" || strings.Trim(e.Path, "/") != "" {
		return nil, fmt.Errorf("endpoint %q of a lake: want a URL such as https://host", endpoint)
	}
	client, err := minio.New(e.Host, &minio.Options{
		Creds:      credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}}),
		Secure:     e.Scheme == "https",
		Region:     region,
		MaxRetries: s3Retries,
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint %q of a lake: %w", endpoint, err)
	}
	prefix := strings.Trim(path.Clean("/"+u.Path), "/")
	if prefix != "" {
		prefix += "/"
	}
	return newStore(&bucket{client: client, name: u.Host, prefix: prefix}), nil
}

func (b *bucket) url() string { return strings.TrimSuffix("s3://"+b.name+"/"+b.prefix, "/") }

// begin checks that the store refuses to create an object twice and to replace another version.
func (b *bucket) begin(ctx context.Context) error {
	if b.probed.Load() {
		return nil
	}
	name := "probe/" + rand.Text()
	if err := b.create(ctx, name, []byte("1")); err != nil && !errors.Is(err, errExists) { // it exists if the answer to the first request was lost
		return fmt.Errorf("store an object for a check: %w", err)
	}
	createErr := b.create(ctx, name, []byte("2"))
	replaceErr := b.replace(ctx, name, "00000000000000000000000000000000", []byte("3"))
	if err := b.remove(ctx, name); err != nil {
		return err
	}
	switch {
	case createErr == nil:
		return errors.New("the store created an object twice: it does not support If-None-Match")
	case !errors.Is(createErr, errExists):
		return fmt.Errorf("store an object twice for a check: %w", createErr)
	case replaceErr == nil:
		return errors.New("the store replaced another version of an object: it does not support If-Match")
	case !errors.Is(replaceErr, errChanged):
		return fmt.Errorf("replace an object for a check: %w", replaceErr)
	}
	b.probed.Store(true)
	return nil
}

func (b *bucket) create(ctx context.Context, name string, data []byte) error {
	var options minio.PutObjectOptions
	options.SetMatchETagExcept("*")
	err := b.store(ctx, name, data, options)
	if statusOf(err) == http.StatusPreconditionFailed {
		return errExists
	}
	return err
}

func (b *bucket) replace(ctx context.Context, name, version string, data []byte) error {
	var options minio.PutObjectOptions
	options.SetMatchETag(version)
	err := b.store(ctx, name, data, options)
	if status := statusOf(err); status == http.StatusPreconditionFailed || status == http.StatusNotFound {
		return errChanged
	}
	return err
}

func (b *bucket) store(ctx context.Context, name string, data []byte, options minio.PutObjectOptions) error {
	ctx, cancel := context.WithTimeout(ctx, s3Timeout)
	defer cancel()
	options.DisableMultipart = true
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, bytes.NewReader(data), int64(len(data)), options)
	return err
}

func statusOf(err error) int {
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return response.StatusCode
	}
	return 0
}

func (b *bucket) open(ctx context.Context, name string) (object, error) {
	in, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err != nil {
		if statusOf(err) == http.StatusNotFound {
			err = fs.ErrNotExist
		}
		return nil, errors.Join(err, in.Close())
	}
	return remoteObject{Object: in, info: info}, nil
}

// remoteObject is an open object of a bucket. Its reads ask for the version of info.
type remoteObject struct {
	*minio.Object

	info minio.ObjectInfo
}

func (o remoteObject) size() int64     { return o.info.Size }
func (o remoteObject) version() string { return o.info.ETag }

func (b *bucket) list(ctx context.Context, directory string) (found []entry, err error) {
	prefix := b.prefix + directory + "/"
	for info := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if info.Err != nil {
			return nil, info.Err
		}
		found = append(found, entry{strings.TrimPrefix(info.Key, b.prefix), info.Size, info.LastModified})
	}
	return found, nil
}

func (b *bucket) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, s3Timeout)
	defer cancel()
	return b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{})
}

func (b *bucket) close() error { return nil }
