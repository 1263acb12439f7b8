package authn

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// keyring holds the keys of one issuer and reloads them:
//   - while a token needs a key that it does not have: at most once per refetchInterval, so that made-up key ids do not become requests to the issuer;
//   - in the background once they are older than refreshAfter, so that a key that the issuer has withdrawn is not used any more.
//
// If the issuer cannot be reached, the keys serve until they are older than maxStale. One load runs at a time; its goroutine ends with Close.
type keyring struct {
	issuer string
	load   func(context.Context) (*keySet, error) // nil for keys that do not change

	refetchInterval time.Duration
	retryInterval   time.Duration // instead of refetchInterval while there are no keys
	refreshAfter    time.Duration
	maxStale        time.Duration // 0 is unlimited
	loadTimeout     time.Duration
	now             func() time.Time
	log             *slog.Logger

	current atomic.Pointer[loadedKeys]

	stop    context.CancelFunc
	ctx     context.Context //nolint:containedctx // of the loads, which outlive the request that starts them
	running sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	closed    bool
	triedAt   time.Time
	loading   chan struct{} // closed at the end of the load that runs, nil if none does
	lastError error         // of the last load
}

type loadedKeys struct {
	set *keySet
	at  time.Time
}

// start makes the keyring ready to load.
func (k *keyring) start() {
	k.ctx, k.stop = context.WithCancel(context.Background())
}

// Close ends a load that runs and waits for it.
func (k *keyring) close() {
	if k.stop == nil {
		return
	}
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.running.Wait()
}

// keys returns the keys in force, nil if there are none or they are too old. It starts a reload of old ones and does not wait for it.
func (k *keyring) keys() *keySet {
	loaded := k.current.Load()
	if loaded == nil {
		return nil
	}
	if k.load == nil {
		return loaded.set
	}
	age := k.now().Sub(loaded.at)
	if age > k.refreshAfter {
		k.reload(k.refetchInterval)
	}
	if k.maxStale > 0 && age >= k.maxStale {
		return nil
	}
	return loaded.set
}

// find returns the keys for a token, and the set that they are of. It waits for a load if one is needed.
func (k *keyring) find(ctx context.Context, kid, alg string) ([]key, *keySet, error) {
	set := k.keys()
	if found := set.find(kid, alg); found != nil {
		return found, set, nil
	}
	if k.load == nil {
		return nil, nil, invalid(ReasonKey)
	}
	interval := k.refetchInterval
	if set == nil {
		interval = k.retryInterval
	}
	// Twice, because the load that runs may have started long ago: the process was suspended since, and the keys of that load are old.
	for range 2 {
		loading := k.reload(interval)
		if loading != nil {
			select {
			case <-loading:
			case <-ctx.Done():
				return nil, nil, k.unavailable(ctx.Err())
			}
		}
		// Also without a load to wait for: the reload of old keys may have ended between the first look and this one.
		set = k.keys()
		if found := set.find(kid, alg); found != nil {
			return found, set, nil
		}
		if set != nil || loading == nil || k.failure() != nil {
			break
		}
	}
	// Without an answer of the issuer it is not known whether the key exists: the token may be signed with the next one.
	if err := k.failure(); set == nil || err != nil {
		return nil, nil, k.unavailable(err)
	}
	return nil, nil, invalid(ReasonKey)
}

// verify checks the type, the algorithm and the signature of a token, and returns the keys that it was verified with.
func (k *keyring) verify(ctx context.Context, t *token, types, algorithms []string) (*keySet, error) {
	switch {
	case !slices.Contains(types, strings.ToLower(t.typ)): // a media type
		return nil, invalidHeader(ReasonType, "typ", t.typ, types)
	case !slices.Contains(algorithms, t.alg):
		return nil, invalidHeader(ReasonAlgorithm, "alg", t.alg, algorithms)
	}
	keys, set, err := k.find(ctx, t.kid, t.alg)
	if err != nil {
		return nil, err
	}
	return set, t.verify(keys)
}

func (k *keyring) unavailable(cause error) error {
	return &UnavailableError{Issuer: k.issuer, RetryAfter: k.retryInterval, Cause: cause}
}

func (k *keyring) failure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lastError
}

// reload starts a load unless one has started within the interval. It returns a channel that is closed at the end of the load that runs, nil if none does.
func (k *keyring) reload(interval time.Duration) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if k.loading != nil {
		return k.loading
	}
	if k.closed || !k.triedAt.IsZero() && now.Sub(k.triedAt) < interval {
		return nil
	}
	k.triedAt = now
	loading := make(chan struct{})
	k.loading = loading
	k.running.Go(func() {
		defer close(loading)
		k.loadOnce()
	})
	return loading
}

func (k *keyring) loadOnce() {
	ctx, cancel := context.WithTimeout(k.ctx, k.loadTimeout)
	defer cancel()
	set, err := k.load(ctx)
	if err == nil {
		// The same keys stay the same set: a new one would have every cached token verified again.
		if old := k.current.Load(); old != nil && bytes.Equal(old.set.text, set.text) {
			set = old.set
		} else {
			k.log.Info("keys loaded", "issuer", k.issuer, "keys", len(set.keys))
		}
		k.current.Store(&loadedKeys{set, k.now()})
	} else if k.ctx.Err() == nil {
		k.log.Warn("key load failed", "issuer", k.issuer, "error", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loading, k.lastError = nil, err
}
