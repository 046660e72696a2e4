package goredis

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// login is what go-redis sends: nothing without a password.
func login(username, password string) (string, string) {
	if password == "" {
		return "", ""
	}
	return username, password
}

type credentialsFunc = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error)

// provider is the one that go-redis would ask; nil: the options have none.
func provider(o *redis.Options) credentialsFunc {
	switch stream, withContext, simple := o.StreamingCredentialsProvider, o.CredentialsProviderContext,
		o.CredentialsProvider; {
	case stream != nil:
		return (&subscription{provider: stream}).credentials
	case withContext != nil:
		limit := cmp.Or(max(o.DialTimeout, 0), 5*time.Second) // the default of go-redis
		return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			username, password, err := withContext(ctx)
			if err != nil {
				return rueidis.AuthCredentials{}, fmt.Errorf("goredis: CredentialsProviderContext: %w", err)
			}
			return credentials(username, password), nil
		}
	case simple != nil:
		return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return credentials(simple()), nil
		}
	default:
		return nil
	}
}

func credentials(username, password string) (c rueidis.AuthCredentials) {
	c.Username, c.Password = login(username, password)
	return c
}

// again is how often a connection logs in with the credentials that were sent last. Providers send new ones minutes
// before the old ones end. The client does not log in again on a connection that listens: the session makes a new one
// when the server ends it.
const again = 30 * time.Second

// A subscription knows what a provider has sent last. It does not end: nobody says when the last session has.
type subscription struct {
	provider auth.StreamingCredentialsProvider
	mu       sync.Mutex // guards begun
	begun    bool
	latest   atomic.Pointer[auth.Credentials] // the provider may send while it is subscribed to
}

func (s *subscription) credentials(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	if err := s.begin(); err != nil {
		return rueidis.AuthCredentials{}, fmt.Errorf("goredis: StreamingCredentialsProvider: %w", err)
	}
	c := credentials((*s.latest.Load()).BasicAuth())
	c.RefreshAfter = time.Now().Add(again)
	return c, nil
}

func (s *subscription) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return nil
	}
	first, _, err := s.provider.Subscribe(s)
	if err != nil {
		return err
	}
	s.latest.CompareAndSwap(nil, &first) // else it has sent newer ones meanwhile
	s.begun = true
	return nil
}

// OnNext implements [auth.CredentialsListener].
func (s *subscription) OnNext(c auth.Credentials) { s.latest.Store(&c) }

// OnError implements [auth.CredentialsListener]. The server says it when the credentials are no longer good.
func (s *subscription) OnError(error) {}
