package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
)

// Servers before Redis 7 report the failure of a command inside a script in this form.
const old = "ERR Error running script (call to f_1028a5db): @user_script:"

func TestTheServersRefusalsAreSortedByWhetherTheyPass(t *testing.T) {
	for text, passes := range map[string]bool{
		"MOVED 3999 127.0.0.1:6381":                         true,
		"ASK 3999 127.0.0.1:6381":                           true,
		"TRYAGAIN Multiple keys request during rehashing":   true,
		"CLUSTERDOWN Hash slot not served":                  true,
		"LOADING Redis is loading the dataset in memory":    true,
		"MASTERDOWN Link with MASTER is down":               true,
		"READONLY You can't write against a read only":      true,
		"BUSY Redis is busy running a script":               true,
		"NOREPLICAS Not enough good replicas to write.":     true,
		"ERR max number of clients reached":                 true,
		"BUSYGROUP Consumer Group name already exists":      false,
		"BUSYKEY Target key name already exists.":           false,
		"OOM command not allowed when used memory":          false,
		"NOPERM this user has no permissions":               false,
		"NOAUTH Authentication required.":                   false,
		"NOSCRIPT No matching script.":                      false,
		"MISCONF Redis is configured to save RDB snapshots": false,
		"ERR lease is 0, must be a whole number of ms":      false,
		"READONLY": true,
		"":         false,

		"ERR Script attempted to access a non local key in a cluster node script: 7f0a, on @user_script:9.": true,
		"ERR Unable to execute command 'del' in script because undeclared keys were accessed " +
			"during rehashing of the slot": true,
		old + "9: @user_script: 9: Lua script attempted to access a non local key in a cluster node":  true,
		old + "4: @user_script: 4: -READONLY You can't write against a read only replica.":            true,
		old + "4: @user_script: 4: -OOM command not allowed when used memory > 'maxmemory'.":          false,
		old + "4: user_script:4: attempt to compare nil with number":                                  false,
		old + "4: @user_script: 4: -NOREPLICAS Not enough good replicas to write. script: f_1028a5db": true,
	} {
		f := sortFailure(t.Context(), answer(t, text))
		assert.Equal(t, Refused, f.Class, text)
		assert.Equal(t, passes, f.Temporary, text)
		assert.Equal(t, passes, Passes(NameError(strings.TrimPrefix(text, "ERR "))), text)
		assert.EqualError(t, f, strings.TrimPrefix(text, "ERR ")) // as the client reports it
		_, ok := errors.AsType[*rueidis.RedisError](f)
		assert.True(t, ok, "the server's error is inside")
	}
}

// A server refuses the first write of a script or none, except for a right that is missing.
func TestAScriptMayHaveChangedSomethingIfARightIsMissing(t *testing.T) {
	for text, may := range map[string]bool{
		"The user executing the script can't publish to the channel script: 7f0a, on @user_script:9.": true,
		old + "4: @user_script: 4: -NOPERM this user has no permissions to access a key":              true,
		"NOPERM this user has no permissions to run the 'evalsha' command":                            false,
		"OOM command not allowed when used memory > 'maxmemory'. script: 7f0a, on @user_script:9.":    false,
		old + "4: @user_script: 4: -OOM command not allowed when used memory > 'maxmemory'.":          false,
		"MISCONF Redis is configured to save RDB snapshots script: 7f0a, on @user_script:9.":          false,
		old + "4: @user_script: 4: -MISCONF Redis is configured to save RDB snapshots":                false,
		"NOREPLICAS Not enough good replicas to write. script: 7f0a, on @user_script:9.":              false,
		"READONLY You can't write against a read only replica. script: 7f0a, on @user_script:9.":      false,
		old + "4: @user_script: 4: -READONLY You can't write against a read only replica.":            false,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":            false,
	} {
		assert.Equal(t, may, Interrupted(sortFailure(t.Context(), answer(t, text))), text)
	}
}

func TestARefusalBecauseOfKeysIsKnown(t *testing.T) {
	for text, keys := range map[string]bool{
		"TRYAGAIN Multiple keys request during rehashing of slot":                              true,
		"NOPERM this user has no permissions to access one of the keys used as arguments":      true, // before Redis 7.2
		"NOPERM No permissions to access a key":                                                true,
		"NOPERM this user has no permissions to run the 'evalsha' command":                     false,
		"NOPERM User app has no permissions to run the 'evalsha' command":                      false,
		"LOADING Redis is loading the dataset in memory":                                       false,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                    false,
		"ERR Script attempted to access a non local key in a cluster node script: 7f0a, on @a": false,
	} {
		assert.Equal(t, keys, BecauseOfKeys(sortFailure(t.Context(), answer(t, text))), text)
	}
	assert.False(t, BecauseOfKeys(sortFailure(t.Context(), io.EOF)))
	assert.False(t, BecauseOfKeys(nil))
}

func TestAServerThatIsNoMasterSaysSo(t *testing.T) {
	for text, replica := range map[string]bool{
		"READONLY You can't write against a read only replica.": true,
		// Of one name of many, before Redis 7:
		"@user_script: 9: -READONLY You can't write against a read only replica.":          true,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": true,
		"@user_script: 9: -OOM command not allowed when used memory > 'maxmemory'.":        false,
		"WRONGTYPE Operation against a key":                                                false,
		"LOADING Redis is loading the dataset in memory":                                   false,
	} {
		assert.Equal(t, replica, ofReplica(text), text)
	}
}

// An error about a key does not mention the script that found it, whatever the server's version.
func TestARefusalBecauseOfTheKeyIsTold(t *testing.T) {
	const words = "WRONGTYPE Operation against a key holding the wrong kind of value"
	for _, text := range []string{
		words,
		words + " script: 6352362ff52589b03c9d38d39a09954c4483b4ed, on @user_script:18.",
		"ERR Error running script (call to f_1028a5db): @user_script:4: " + words,
		"ERR Error running script (call to f_1028a5db): @user_script:4: @user_script: 4: -" + words + " script: f_1028a5db",
	} {
		f := sortFailure(t.Context(), answer(t, text))
		assert.Equal(t, Refused, f.Class, text)
		assert.False(t, f.Temporary, text)
		assert.EqualError(t, f, "the key holds something else: "+words, text)
		_, ok := errors.AsType[*rueidis.RedisError](f)
		assert.True(t, ok, "the server's error is inside")
		assert.False(t, MayPass(f), text)
	}
}

// A refusal because of the server or of rights may pass one day; one because of the call never does.
func TestRefusalsThatMayPass(t *testing.T) {
	for text, may := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                                                           true,
		"OOM command not allowed when used memory":                                                                 true,
		"MISCONF Redis is configured to save RDB snapshots":                                                        true,
		"NOPERM this user has no permissions":                                                                      true,
		"ERR The user executing the script can't run this command or subcommand script: 84dd, on @user_script:24.": true,
		"ERR ACL failure in script: User x has no permissions to run the 'incrby' command script: 84dd":            true,
		"NOAUTH Authentication required.":                                                                          true,
		"WRONGPASS invalid username-password pair or user is disabled.":                                            true,
		old + "4: @user_script: 4: -OOM command not allowed.":                                                      true,
		"ERR the free permits would not stay below 2^53":                                                           false,
		"NOSCRIPT No matching script.":                                                                             false,
	} {
		assert.Equal(t, may, MayPass(sortFailure(t.Context(), answer(t, text))), text)
	}
	for err, may := range map[error]bool{
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}: true, io.EOF: false,
		rueidis.Nil: false,
	} {
		assert.Equal(t, may, MayPass(sortFailure(t.Context(), err)), err)
	}
}

func TestFailuresWithoutAnAnswerAreSorted(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for name, c := range map[string]struct {
		err       error
		class     Class
		temporary bool
	}{
		"nobody listens":             {dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), Refused, true},
		"nobody listens, wrapped":    {fmt.Errorf("node: %w", dial(syscall.ECONNREFUSED)), Refused, true},
		"no such host":               {dial(&net.DNSError{Err: "no such host", Name: "redis"}), Refused, true},
		"somebody's dial timed out":  {dial(context.DeadlineExceeded), Refused, true},
		"somebody gave up dialling":  {dial(context.Canceled), Refused, true},
		"no node has the slot":       {rueidis.ErrNoSlot, Refused, true},
		"somebody's handshake":       {context.DeadlineExceeded, Unknown, true},
		"the connection ended":       {io.EOF, Unknown, true},
		"the connection was reset":   {&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, Unknown, true},
		"the connection went silent": {os.ErrDeadlineExceeded, Unknown, true},
		"a write failed":             {&net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}, Unknown, true},
		"the client is closed":       {rueidis.ErrClosing, Unknown, false},
		"the script replied nothing": {rueidis.Nil, Broken, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := sortFailure(t.Context(), c.err)
			assert.Equal(t, c.class, f.Class)
			assert.Equal(t, c.temporary, f.Temporary)
			assert.EqualError(t, f, c.err.Error())
			assert.NotErrorIs(t, f, context.DeadlineExceeded, "it is not the caller's")
			assert.NotErrorIs(t, f, context.Canceled, "it is not the caller's")
			if !foreign(c.err) {
				assert.ErrorIs(t, f, c.err)
			}
		})
	}
}

func TestTheCallersEndedContextExplainsTheFailure(t *testing.T) {
	why := errors.New("why")
	ctx, end := context.WithCancelCause(t.Context())
	end(why)
	for _, err := range []error{
		context.Canceled, io.EOF, rueidis.ErrClosing,
		&net.OpError{Op: "dial", Err: context.Canceled},
	} {
		f := sortFailure(ctx, err)
		assert.Equal(t, Unknown, f.Class, "%v", err)
		assert.False(t, f.Temporary, "%v", err)
		assert.Equal(t, why, f.Err, "%v", err)
	}
	f := sortFailure(ctx, answer(t, "WRONGTYPE"))
	assert.Equal(t, Refused, f.Class, "an answer is one, whenever it comes")
}

// Where the client cannot wait for the context, it looks at the deadline itself, and may be earlier than the
// context's timer. A deadline that it reports is still the caller's.
func TestADeadlineThatHasPassedIsTheCallers(t *testing.T) {
	why := errors.New("why")
	for name, c := range map[string]struct {
		until time.Duration // the context ends this long after its deadline
		want  error
	}{
		"on time":            {0, why},
		"its timer is late":  {tardy - 1, why},
		"it never says so":   {time.Hour, context.DeadlineExceeded},
		"it is not over yet": {-time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, end := context.WithCancelCause(t.Context())
				deadline := time.Now()
				if c.want == nil {
					deadline = deadline.Add(-c.until)
				} else {
					time.AfterFunc(c.until, func() { end(why) })
				}
				ctx := lateContext{inner, deadline}
				assert.Equal(t, c.want, ended(ctx))
				f := sortFailure(ctx, context.DeadlineExceeded)
				assert.Equal(t, Unknown, f.Class)
				assert.Equal(t, c.want == nil, f.Temporary)
				if c.want != nil {
					assert.Equal(t, c.want, f.Err)
				}
				end(nil)
				time.Sleep(time.Hour)
			})
		})
	}
}

// A lateContext has a deadline before it ends.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

func TestTheClassIsFoundInWrappedErrors(t *testing.T) {
	f := &Failure{Class: Unknown, Temporary: true, Err: io.EOF}
	err := fmt.Errorf(`rlock "x": lock: %w`, f)
	assert.Equal(t, Unknown, ClassOf(err))
	assert.True(t, IsTemporary(err))
	assert.ErrorIs(t, err, io.EOF)
	assert.Zero(t, ClassOf(io.EOF))
	assert.False(t, IsTemporary(io.EOF))
	assert.Zero(t, ClassOf(nil))
}
