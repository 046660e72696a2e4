package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestUnlockEveryKind(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	everything(t, srv)
	messages := srv.Messages(t, "redisson_*", "holdfast_*")
	for _, name := range []string{"plain", "fenced", "read", "written", "string"} {
		r := run(t, srv, nil, "unlock", name)
		assert.Equal(t, 64, r.code, name)
		assert.Contains(t, r.stderr, "--yes")
		require.EqualValues(t, 1, srv.Int(t, "EXISTS", name))

		assert.Contains(t, ok(t, srv, "unlock", "--yes", name), name+": freed; it was held by ")
		require.EqualValues(t, 0, srv.Int(t, "EXISTS", name))
		messages.Wait(t, 1)

		r = run(t, srv, nil, "unlock", "--yes", name)
		assert.Equal(t, 1, r.code, r.stderr)
		assert.Empty(t, r.stdout)
	}
	fair := parsed(t, ok(t, srv, "unlock", "--yes", "--json", "fair"))
	assert.True(t, *fair.Unlocked)
	assert.Len(t, fair.Waiters, 2)
	for _, name := range []string{"semaphore", "latch", "permits"} {
		r := run(t, srv, nil, "unlock", "--yes", name)
		assert.Equal(t, 64, r.code, name)
		assert.Contains(t, r.stderr, "holdfast semaphore")
		require.EqualValues(t, 1, srv.Int(t, "EXISTS", name))
	}
}

// When a fair lock is freed, its next waiter gets it.
func TestUnlockWakesTheNext(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, nil)
	take(t, fairlock.New(s, "fair", nil))
	got := make(chan error, 1)
	go func() {
		h, err := fairlock.New(s, "fair", nil).Lock(t.Context())
		if err == nil {
			err = h.Release()
		}
		got <- err
	}()
	kit.Await(t, "a waiter", func() bool { return srv.Int(t, "LLEN", "redisson_lock_queue:{fair}") == 1 })
	ok(t, srv, "unlock", "-y", "fair")
	require.NoError(t, <-got)
}

// A token may be a number, or long.
func TestUnlockOfAnyToken(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, token := range []string{"4711", strings.Repeat("t", 129), strings.Repeat("t", 64<<10)} {
		_, err := setlock.New(open(t, srv, nil), "job", &setlock.Options{Token: token}).Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 64, run(t, srv, nil, "unlock", "--yes", "job").code, "it may be anything")
		assert.Equal(t, 1, run(t, srv, nil, "wait", "-w", "0", "--kind", "setlock", "job").code)
		ok(t, srv, "unlock", "--yes", "--kind", "setlock", "job")
		require.EqualValues(t, 0, srv.Int(t, "EXISTS", "job"))
	}
}

// A string of another program is not taken for a lock, unless somebody declares it one.
func TestUnlockOfAString(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "SET", "cron", "redsync-token", "PX", "60000")
	r := run(t, srv, nil, "unlock", "--yes", "cron")
	assert.Equal(t, 64, r.code)
	assert.Contains(t, r.stderr, "--kind setlock")
	assert.Equal(t, 64, run(t, srv, nil, "unlock", "--yes", "--kind", "rlock", "cron").code)
	assert.Contains(t, ok(t, srv, "unlock", "--yes", "--kind", "setlock", "cron"), "redsync-token")
	assert.EqualValues(t, 0, srv.Int(t, "EXISTS", "cron"))
}

// A lock that was freed must not look as if nobody had held it.
func TestUnlockCannotSayThatItFreedTheLock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, open := range unwritable {
		t.Run(name, func(t *testing.T) {
			out := open(t)
			for _, args := range [][]string{{"unlock", "-y", "lock"}, {"unlock", "-y", "--json", "lock"}} {
				srv.Do(t, "HSET", "lock", java1, "1")
				var said strings.Builder
				cmd := command(t, srv, nil, args...)
				cmd.Stdout, cmd.Stderr = out, &said
				_ = cmd.Run()
				require.Equal(t, 75, cmd.ProcessState.ExitCode())
				require.Contains(t, said.String(), "it was done, but then: ")
				require.True(t, free(t, srv, "lock"))
			}
		})
	}
}

func TestUnlockIfOwner(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "HSET", "rw", "mode", "write", java1+":write", "1")
	r := run(t, srv, nil, "unlock", "--yes", "--if-owner", java2, "rw")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, java1)
	r = run(t, srv, nil, "unlock", "--yes", "--if-owner", "", "rw") // as of a variable that is not set
	assert.Equal(t, 1, r.code, r.stdout)
	assert.EqualValues(t, 1, srv.Int(t, "EXISTS", "rw"))
	ok(t, srv, "unlock", "--yes", "--if-owner", java1, "rw")
	assert.EqualValues(t, 0, srv.Int(t, "EXISTS", "rw"))
}
