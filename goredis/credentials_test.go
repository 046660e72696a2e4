package goredis_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/goredis"
)

func ask(t *testing.T, o *redis.Options) func() (rueidis.AuthCredentials, error) {
	t.Helper()
	c, err := goredis.ClientOption(o)
	require.NoError(t, err)
	return func() (rueidis.AuthCredentials, error) { return c.AuthCredentialsFn(rueidis.AuthCredentialsContext{}) }
}

func requireLogin(t *testing.T, ask func() (rueidis.AuthCredentials, error), username, password string) (
	again time.Time,
) {
	t.Helper()
	c, err := ask()
	require.NoError(t, err)
	require.Equal(t, username, c.Username)
	require.Equal(t, password, c.Password)
	return c.RefreshAfter
}

// Each connection asks anew, and nothing of what an earlier one was told is kept.
func TestCredentialsProvider(t *testing.T) {
	username, password := "first", "p"
	ask := ask(t, &redis.Options{
		Username: "nobody", Password: "nothing",
		CredentialsProvider: func() (string, string) { return username, password },
	})
	again := requireLogin(t, ask, "first", "p")
	assert.Zero(t, again)
	username = "second"
	requireLogin(t, ask, "second", "p")
	password = ""
	requireLogin(t, ask, "", "")
}

func TestCredentialsProviderContext(t *testing.T) {
	var fails error
	for limit, patience := range map[time.Duration]time.Duration{
		0: 5 * time.Second, -1: 5 * time.Second, time.Hour: time.Hour,
	} {
		began := time.Now()
		ask := ask(t, &redis.Options{
			DialTimeout: limit,
			CredentialsProvider: func() (string, string) {
				assert.Fail(t, "the one with a context comes first")
				return "", ""
			},
			CredentialsProviderContext: func(ctx context.Context) (string, string, error) {
				deadline, ok := ctx.Deadline()
				assert.True(t, ok)
				assert.WithinRange(t, deadline, began.Add(patience), time.Now().Add(patience))
				return "app", "p", fails
			},
		})
		requireLogin(t, ask, "app", "p")
		fails = errors.New("the vault is locked")
		_, err := ask()
		require.ErrorIs(t, err, fails)
		require.EqualError(t, err, "goredis: CredentialsProviderContext: the vault is locked")
		fails = nil
	}
}

// A stream sends credentials to those who have subscribed.
type stream struct {
	fails         error
	first         auth.Credentials
	early         auth.Credentials // sent before Subscribe returns; nil: nothing
	listener      auth.CredentialsListener
	subscriptions int
}

func (s *stream) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s.listener = l
	s.subscriptions++
	if s.early != nil {
		l.OnNext(s.early)
	}
	return s.first, func() error { return nil }, s.fails
}

// There is one subscription, which is tried again with the next connection if it fails, and connections log in with
// what was sent last, also those that stand.
func TestStreamingCredentialsProvider(t *testing.T) {
	s := &stream{first: auth.NewBasicCredentials("first", "p"), fails: errors.New("no token")}
	ask := ask(t, &redis.Options{
		StreamingCredentialsProvider: s,
		CredentialsProvider: func() (string, string) {
			assert.Fail(t, "the stream comes first")
			return "", ""
		},
	})
	require.Zero(t, s.subscriptions)
	_, err := ask()
	require.EqualError(t, err, "goredis: StreamingCredentialsProvider: no token")
	s.fails = nil
	began := time.Now()
	again := requireLogin(t, ask, "first", "p")
	assert.WithinRange(t, again, began.Add(30*time.Second), time.Now().Add(30*time.Second))
	s.listener.OnNext(auth.NewBasicCredentials("second", "p"))
	s.listener.OnError(errors.New("try later"))
	requireLogin(t, ask, "second", "p")
	assert.Equal(t, 2, s.subscriptions)
}

func TestWhatAStreamSendsBeforeItIsSubscribedToIsNewer(t *testing.T) {
	s := &stream{first: auth.NewBasicCredentials("first", "p"), early: auth.NewBasicCredentials("second", "p")}
	requireLogin(t, ask(t, &redis.Options{StreamingCredentialsProvider: s}), "second", "p")
}

// Connections that are made at the same time subscribe once.
func TestConnectionsSubscribeOnce(t *testing.T) {
	s := &stream{first: auth.NewBasicCredentials("first", "p")}
	ask := ask(t, &redis.Options{StreamingCredentialsProvider: s})
	var connections sync.WaitGroup
	for range 8 {
		connections.Go(func() {
			c, err := ask()
			assert.NoError(t, err)
			assert.Equal(t, "first", c.Username)
		})
	}
	connections.Wait()
	assert.Equal(t, 1, s.subscriptions)
}
