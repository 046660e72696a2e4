package scripts

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// runWithout makes the call for a user that has no right to one of the commands inside. Most scripts have then
// changed nothing. What the others leave half done costs nobody more than the time of a lease: no lock without an
// expiry is left, and a semaphore has as many permits as before, free and taken ones together.
func (s step) runWithout(t *testing.T, srv *redistest.Server, command string, messages *redistest.Messages) {
	script := s.call.call().script
	messages.Drain(t)
	srv.Do(t, "FLUSHALL")
	s.prepare(t, srv)
	srv.Grant(t, "weak", "+@all", "~*", "&*", "-"+command)
	srv.Do(t, "ACL", "LOG", "RESET")
	before := srv.Keyspace(t)
	conn, err := redistest.Dial(srv.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do("AUTH", "weak", redistest.Password)
	require.NoError(t, err)
	reply, err := conn.Do(s.command()...)
	after := srv.Keyspace(t)
	told := "without " + command
	if len(srv.Do(t, "ACL", "LOG").([]any)) == 0 { // a ms later the script does not need the command
		assert.True(t, command == "pexpire" || strings.HasPrefix(script, "rwlock_"), "%s: it was not refused", told)
		return
	}
	if script == "guard_commands" && command == "incr" { // it is the user's, and the error is its reply
		require.Equal(t, before, after, told)
		return
	}
	leased := strings.HasSuffix(script, "_expirable")
	if leased && (s.lined() || command == "lindex" || s.fails != "") {
		want := before
		if err == nil {
			want = s.after
		}
		require.Equal(t, permitsOf(t, want), permitsOf(t, after), told)
		return
	}
	if strings.HasPrefix(script, "semaphore_") && (s.lined() || slices.Contains(s.call.call().args, asker)) {
		// What places in the line that costs, their sessions notice; nobody may lose a permit, or get two.
		want := before
		if err == nil {
			want = s.after
		}
		if took, _ := reply.([]any); strings.HasPrefix(command, "pubsub") && len(took) > 2 && took[0] == int64(1) {
			want = counted(strconv.FormatInt(took[2].(int64), 10)) // as if others waited
		}
		require.Equal(t, want[lockKey], after[lockKey], told)
		return
	}
	if s.lined() && script != "rlock_stand" || s.writersWait() {
		requireKept(t, before, after, messages.Drain(t), told)
		return
	}
	renewal := strings.Contains(script, "_renew") // it reports this for each name by itself
	if command == "exists" {                      // the script asks for one key after the other
		assert.Equal(t, s.fails == "", err == nil, told)
		assert.Equal(t, s.after[lockKey], after[lockKey], told)
		return
	}
	if !renewal && assert.Error(t, err, told) {
		assert.Regexp(t, kit.Forbidden, err.Error(), told)
	}
	switch {
	case strings.HasSuffix(script, "_expirable"):
		assert.Equal(t, permitsOf(t, before), permitsOf(t, after), told)
		if command == "pexpire" { // with this semaphore all its permits go
			assert.Subset(t, lasting(after), lasting(before), told)
		} else {
			assert.Equal(t, lasting(before), lasting(after), told)
		}
	case strings.HasPrefix(script, "rwlock_") || renewal:
		for key, value := range after {
			if key == rwLine || key == rwAlive { // who has half of a place looks again
				continue
			}
			assert.True(t, value.Expires || before[key].Type != "" && !before[key].Expires,
				"%s, %s stays for ever", told, key)
		}
	default:
		for _, space := range []map[string]redistest.Value{before, after} {
			delete(space, tokenKey)      // some of which may be left out
			if script == "rlock_stand" { // who has no place, or half of one, looks again
				delete(space, lineKey)
				delete(space, aliveKey)
			}
		}
		if script == "rlock_release" && command == "publish" { // it has freed the lock, and puts it back
			before[lockKey] = hash(me, "1")
		}
		assert.Equal(t, before, after, told)
	}
}

// lined reports whether the call finds a line of waiters.
func (s step) lined() bool {
	return slices.ContainsFunc(s.seed, func(command []string) bool { return command[1] == lineKey })
}

// writersWait reports whether the call finds a line of writers.
func (s step) writersWait() bool {
	return slices.ContainsFunc(s.seed, func(command []string) bool { return command[1] == rwLine })
}

// requireKept requires that a call that was refused something has left the lock as it was, has freed it or has passed
// it on: for a while, and to whoever was told so. What places in the line that costs, their sessions notice.
func requireKept(t *testing.T, before, after map[string]redistest.Value, messages []redistest.Message, told string) {
	lock, there := after[lockKey]
	require.True(t, !there || lock.Expires || !before[lockKey].Expires, "%s: the lock stays for ever", told)
	for _, m := range messages {
		if owner, _, granted := strings.Cut(m.Payload, " "); granted {
			require.Equal(t, map[string]string{owner: "1"}, lock.Content, "%s: it is told that it has the lock", told)
		}
	}
}

// permitsOf returns how many permits the semaphore of the tables has.
func permitsOf(t *testing.T, space map[string]redistest.Value) int {
	taken, _ := space[permitsKey].Content.(map[string]float64)
	text, _ := space["x"].Content.(string)
	if text == "" {
		return len(taken)
	}
	free, err := strconv.Atoi(text)
	require.NoError(t, err)
	return free + len(taken)
}

// lasting returns the permits whose leases are not over, with the ends of their leases.
func lasting(space map[string]redistest.Value) map[string]float64 {
	permits := map[string]float64{}
	taken, _ := space[permitsKey].Content.(map[string]float64)
	for id, deadline := range taken {
		if deadline > float64(time.Now().UnixMilli()) {
			permits[id] = deadline
		}
	}
	return permits
}
