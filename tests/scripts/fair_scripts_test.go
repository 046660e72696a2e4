package scripts

import (
	"cmp"
	"maps"
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

// A fairStep is a call of one of a fair lock's scripts. tests/fairqueue compares them with a model; here are messages
// that are refused or not heard, keys of other types, the locks x and {x}, and a server without memory.
type fairStep struct {
	seed     [][]string
	full     bool   // the server has no memory left
	hears    string // where somebody listens; default: everywhere
	rights   string // to channels, of who calls; default: to all
	call     caller
	reply    any
	fails    string
	held     string   // who has the lock then
	twice    bool     // and holds it twice
	queue    []string // who waits then
	ours     []string // of this toolkit, even if dropped from the queue
	messages []redistest.Message
}

// mine is how a waiter of ours is stored, alive for an hour: tests wait for their turn, long after their tables were
// made. Behind the point of its score is what it asks for.
func mine(waiter string, asks float64) [][]string {
	score := float64(time.Now().Add(time.Hour).UnixMilli()) + asks
	return [][]string{
		{"RPUSH", fairKeys[1], waiter},
		{"ZADD", fairKeys[2], strconv.FormatInt(time.Now().Add(2*time.Hour).UnixMilli(), 10), waiter},
		{"RPUSH", fairKeys[3], waiter},
		{"ZADD", fairKeys[4], strconv.FormatFloat(score, 'f', -1, 64), waiter},
	}
}

// theirs is how one of Redisson's is stored.
func theirs(waiter string) [][]string { return mine(waiter, 0)[:2] }

const hears = 950. / 1024 // a waiter that may be handed the lock for 9.5 s

// tells is a message to a waiter on its own channel, or to its session.
func tells(channel, what string) []redistest.Message {
	return []redistest.Message{{Channel: channel, Payload: what}}
}

func TestFairScriptsPassTheLockOn(t *testing.T) {
	t.Parallel()
	queue := []string{"b:1"}
	hold := seed(me, "1")
	granted := tells(fairTold+"b", "b:1 0")
	srv := redistest.Start(t)
	for name, s := range map[string]fairStep{
		"hands it on": {
			seed: with(hold, mine("b:1", hears), mine("c:1", hears)), call: releaseFair{}, reply: int64(2),
			held: "b:1", queue: []string{"c:1"}, ours: []string{"c:1"}, messages: granted,
		},
		"hands it on without more arguments": {
			seed: with(hold, mine("b:1", hears), mine("c:1", hears)), call: releaseFair{short: true}, reply: int64(2),
			held: "b:1", queue: []string{"c:1"}, ours: []string{"c:1"}, messages: granted,
		},
		"without memory": {
			seed: with(hold, mine("b:1", hears)), full: true, call: releaseFair{}, reply: int64(2),
			held: "b:1", messages: granted,
		},
		"to one who does not hear": {
			seed: with(hold, mine("b:1", 0)), call: releaseFair{}, reply: int64(2),
			queue: queue, ours: queue, messages: tells(fairOwn+"b:1", "0"),
		},
		"to one who does not hear without more arguments": {
			seed: with(hold, mine("b:1", 0)), call: releaseFair{short: true}, reply: int64(2),
			queue: queue, ours: queue, messages: tells(fairOwn+"b:1", "0"),
		},
		"to one who waits for the lock of the other name": {
			seed: with(hold, mine("b:1", hears+1./2048)), call: releaseFair{}, reply: int64(2),
			queue: queue, ours: queue, messages: tells(fairOwn+"b:1", "0"),
		},
		"to Redisson": {
			seed: with(hold, theirs(java), mine("c:1", hears)), call: releaseFair{}, reply: int64(2),
			queue: []string{java, "c:1"}, ours: []string{"c:1"}, messages: tells(fairOwn+java, "0"),
		},
		"to an older version, with one behind who will be told as older versions do": {
			seed: with(hold, mine(java, 0), mine("c:1", 0), mine("b:1", hears)), call: releaseFair{}, reply: int64(2),
			queue: []string{java, "c:1", "b:1"}, ours: []string{java, "c:1", "b:1"},
			messages: append(tells(fairOwn+java, "0"), tells(fairTold+"b", "b:1")...),
		},
		"nobody hears": {
			seed: with(hold, mine("b:1", hears)), hears: "nothing", call: releaseFair{}, reply: int64(2), ours: queue,
		},
		"the first does not hear": {
			seed: with(hold, mine("b:1", hears), mine("c:1", hears)), hears: fairTold + "c", call: releaseFair{},
			reply: int64(2), held: "c:1", ours: queue, messages: tells(fairTold+"c", "c:1 0"),
		},
		"whether anybody hears is not known": {
			seed: with(hold, mine("b:1", hears)), hears: "nothing", call: releaseFair{unreached: true}, reply: int64(2),
			held: "b:1",
		},
		"a message to a session that is refused": {
			seed: with(hold, mine("b:1", hears)), rights: "&redisson*", call: releaseFair{}, reply: int64(2),
			queue: queue, ours: queue, messages: tells(fairOwn+"b:1", "0"),
		},
		"a message to a session that is refused, behind one who does not hear": {
			seed: with(hold, mine("b:1", hears), mine("c:1", hears)), hears: fairTold + "c", rights: "&redisson*",
			call: releaseFair{}, reply: int64(2), queue: []string{"c:1"}, ours: []string{"b:1", "c:1"},
		},
		"all messages are refused": {
			seed: with(hold, mine("b:1", hears)), rights: "&none", call: releaseFair{}, fails: "channel",
			held: me, queue: queue, ours: queue,
		},
		"scores of another type": {
			seed: with(hold, mine("b:1", hears), [][]string{{"SET", fairKeys[2], "precious"}}), call: releaseFair{},
			fails: "WRONGTYPE", held: me, ours: queue,
		},
		"a list of ours of another type": {
			seed: with(hold, mine("b:1", hears), [][]string{{"SET", fairKeys[3], "precious"}}), call: releaseFair{},
			reply: int64(2), held: "b:1", messages: granted,
		},
		"another's, with a key of another type for who is alive": {
			seed: with(seed(ours, "1"), theirs("b:1")[:1], [][]string{{"SET", fairKeys[4], "precious"}}), call: releaseFair{},
			reply: int64(0), held: ours, queue: queue,
		},
		"a queue of another type": {
			seed: with(hold, [][]string{{"SET", fairKeys[1], "precious"}}), call: releaseFair{}, fails: "WRONGTYPE", held: me,
		},
		"nothing to hand on": {
			seed: mine("b:1", hears), call: releaseFair{}, reply: int64(0), queue: queue, ours: queue,
		},
		"by force": {
			seed: with(hold, mine("b:1", hears)), call: forceFair{}, reply: now{}, held: "b:1", messages: granted,
		},
		"by force, a message to a session that is refused": {
			seed: with(hold, mine("b:1", hears)), rights: "&redisson*", call: forceFair{}, reply: now{},
			queue: queue, ours: queue, messages: tells(fairOwn+"b:1", "0"),
		},
		"by force, all messages are refused, of what is held twice": {
			seed: with(seed(me, "2"), mine("b:1", hears)), rights: "&none", call: forceFair{}, fails: "channel",
			held: me, twice: true, queue: queue, ours: queue,
		},
		"the next is told when the first leaves, by one who may not tell sessions": {
			seed: with(mine(me, hears), mine("b:1", hears)), rights: "&redisson*", call: leaveFair{}, reply: int64(1),
			queue: queue, ours: queue, messages: tells(fairOwn+"b:1", "0"),
		},
		"of a call that is given up": {
			seed: with(hold, mine("b:1", hears)), call: leaveFair{}, reply: int64(2), held: "b:1", messages: granted,
		},
		"the next is told when the first leaves": {
			seed: with(mine(me, hears), mine("b:1", hears)), call: leaveFair{}, reply: int64(1),
			queue: queue, ours: queue, messages: tells(fairTold+"b", "b:1"),
		},
	} {
		t.Run(name, func(t *testing.T) { s.run(t, srv) })
	}
}

// Whatever is refused once the lock is not its owner's any more, the owner gets it back.
func TestARefusedGrantLeavesAFairLockWithItsOwner(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"lrem", "zrem", "publish"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			messages := hear(t, srv, "")
			step{seed: with(seed(me, "1"), mine("b:1", hears))}.prepare(t, srv)
			_, err := fairStep{call: releaseFair{}}.do(t, srv, "+@all", "&*", "-"+command)
			require.Error(t, err)
			assert.Regexp(t, kit.Forbidden, err.Error())
			space := srv.Keyspace(t)
			assert.Equal(t, me, holder(t, space))
			assert.True(t, space[fairKeys[4]].Expires, "who is alive")
			assert.Empty(t, messages.Drain(t))
		})
	}
}

func TestFairScriptsStand(t *testing.T) {
	t.Parallel()
	known, unknown := seed(ours, "1"), seed(java, "1")
	waits := func(place, listen int64) []any { return head(0, 5000, place, listen) }
	both := []string{"b:1", me}
	srv := redistest.Start(t)
	for name, s := range map[string]fairStep{
		"the first": {
			seed: known, call: acquireFair{grant: "9500"}, reply: waits(1, 0), held: ours, queue: both[1:], ours: both[1:],
		},
		"without memory": {
			seed: known, full: true, call: acquireFair{grant: "9500"}, reply: waits(1, 0),
			held: ours, queue: both[1:], ours: both[1:],
		},
		"behind another, without more arguments": {
			seed: with(known, mine("b:1", hears)), call: acquireFair{short: true}, reply: waits(1, 0), held: ours,
			queue: both, ours: both,
		},
		"behind one whose turn it is, and that is told without more arguments": {
			seed: mine("b:1", hears), call: acquireFair{short: true}, reply: waits(1, 1), queue: both, ours: both,
			messages: tells(fairTold+"b", "b:1"),
		},
		"behind one that does not hear, and that is told without more arguments": {
			seed: mine("b:1", 0), call: acquireFair{short: true}, reply: waits(1, 1), queue: both, ours: both,
			messages: tells(fairOwn+"b:1", "0"),
		},
		"behind another": {
			seed: with(known, mine("b:1", hears)), call: acquireFair{}, reply: waits(1, 0), held: ours, queue: both, ours: both,
		},
		"and listens to a holder that tells no sessions": {
			seed: unknown, call: acquireFair{grant: "9500"}, reply: waits(1, 1), held: java, queue: both[1:], ours: both[1:],
		},
		"and listens behind one that tells no sessions": {
			seed: with(known, theirs(java)), call: acquireFair{grant: "9500"}, reply: waits(1, 1),
			held: ours, queue: []string{java, me}, ours: both[1:],
		},
		"and does not listen yet behind one that tells no sessions, instead of one that it has dropped": {
			seed: with(known, theirs(java), mine("b:1", hears)[2:]), call: acquireFair{grant: "9500"}, reply: waits(1, 0),
			held: ours, queue: []string{java, me}, ours: both,
		},
		"and listens with its first sign of life": {
			seed: with(known, theirs(java), mine("b:1", hears)[2:], mine(me, hears)),
			call: acquireFair{grant: "9500", again: true}, reply: waits(0, 1), held: ours, queue: []string{java, me}, ours: both,
		},
		"a copy of the first call": {
			seed: with(known, mine("b:1", hears), mine(me, hears)), call: acquireFair{grant: "9500"}, reply: waits(0, 0),
			held: ours, queue: both, ours: both,
		},
		"again": {
			seed: with(known, mine("b:1", hears), mine(me, 0)), call: acquireFair{grant: "9500", again: true},
			reply: waits(0, 0), held: ours, queue: both, ours: both,
		},
		"its place is gone": {
			seed: with(known, mine("b:1", hears)), call: acquireFair{grant: "9500", again: true}, reply: head(-1),
			held: ours, queue: both[:1], ours: both[:1],
		},
		"back in its place": {
			seed: with(known, mine(me, 0)[2:], mine("b:1", hears)), call: acquireFair{grant: "9500", again: true},
			reply: waits(2, 1), held: ours, queue: []string{me, "b:1"}, ours: []string{me, "b:1"},
		},
		"granted by a release": {
			seed: with(seed(me, "1"), mine("b:1", hears)), call: acquireFair{grant: "9500", again: true}, reply: now{},
			held: me, queue: both[:1], ours: both[:1],
		},
		"granted by the call after it was dropped": {
			seed: mine(me, 0)[2:], call: acquireFair{grant: "9500", again: true}, reply: now{}, held: me,
		},
		"granted by the call after the server has lost the queue": {
			seed: mine(me, 0)[1:], call: acquireFair{grant: "9500", again: true}, reply: now{}, held: me,
		},
		"takes it with a token": {call: acquireFair{token: true}, reply: head(1, 1), held: me},
		"in its turn, with a token": {
			seed: with(mine(me, hears), [][]string{{"SET", tokenKey, "7"}}),
			call: acquireFair{token: true, again: true}, reply: head(1, 8), held: me,
		},
		"granted by a release, with a token beyond the clock that keeps all its digits": {
			seed: with(seed(me, "1"), mine("b:1", hears), [][]string{{"SET", tokenKey, "9007199254740993", "PX", "10000"}}),
			call: acquireFair{token: true, ttl: "60000", again: true}, reply: []any{int64(1), now{}, "9007199254740994"},
			held: me, queue: both[:1], ours: both[:1],
		},
		"no token while another has it": {
			seed: known, call: acquireFair{token: true, grant: "9500"}, reply: waits(1, 0),
			held: ours, queue: both[1:], ours: both[1:],
		},
		"a token of another type": {
			seed: with(mine(me, hears), [][]string{{"RPUSH", tokenKey, "precious"}}),
			call: acquireFair{token: true, again: true}, fails: "WRONGTYPE", queue: both[1:], ours: both[1:],
		},
		"behind one that it tells": {
			seed: mine(ours, hears), call: acquireFair{grant: "9500"}, reply: waits(1, 0),
			queue: []string{ours, me}, ours: []string{ours, me}, messages: tells(fairTold+ours[:36], ours),
		},
		"and listens to one of an older version that it tells": {
			seed: mine(java, 0), call: acquireFair{grant: "9500"}, reply: waits(1, 1),
			queue: []string{java, me}, ours: []string{java, me}, messages: tells(fairOwn+java, "0"),
		},
		"a try tells the first": {
			seed: mine("b:1", hears), call: acquireFair{try: true}, reply: head(0, -2),
			queue: both[:1], ours: both[:1], messages: tells(fairTold+"b", "b:1"),
		},
		"a try that may not tell sessions tells the first": {
			seed: mine("b:1", hears), rights: "&redisson*", call: acquireFair{try: true}, reply: head(0, -2),
			queue: both[:1], ours: both[:1], messages: tells(fairOwn+"b:1", "0"),
		},
		"a list of ours of another type": {
			seed: with(known, [][]string{{"SET", fairKeys[3], "precious"}}), call: acquireFair{}, fails: "WRONGTYPE", held: ours,
		},
		"scores of another type": {
			seed: with(known, [][]string{{"SET", fairKeys[2], "precious"}}), call: acquireFair{}, fails: "WRONGTYPE", held: ours,
		},
		"who is alive of another type": {
			seed: with(known, [][]string{{"SET", fairKeys[4], "precious"}}), call: acquireFair{}, fails: "WRONGTYPE", held: ours,
		},
	} {
		t.Run(name, func(t *testing.T) { s.run(t, srv) })
	}
}

func (s fairStep) run(t *testing.T, srv *redistest.Server) {
	empty(t, srv)
	prepared := step{seed: s.seed, full: s.full}
	prepared.prepare(t, srv)
	messages := hear(t, srv, s.hears)
	srv.ResetStats(t)
	began := time.Now().UnixMilli()
	reply, err := s.do(t, srv, "+@all", cmp.Or(s.rights, "&*"))
	if s.fails != "" {
		require.ErrorContains(t, err, s.fails)
	} else {
		require.NoError(t, err)
		assert.Equal(t, s.reply, withNow(reply, began))
	}
	inside := srv.CommandStats(t)
	space := srv.Keyspace(t)
	assert.Equal(t, s.held, holder(t, space))
	if s.twice {
		assert.Equal(t, map[string]string{s.held: "2"}, space[lockKey].Content)
	}
	list := func(key string) []string {
		found, _ := space[key].Content.([]string)
		return found
	}
	assert.Equal(t, s.queue, list(fairKeys[1]), "the queue")
	assert.Equal(t, s.ours, list(fairKeys[3]), "ours")
	if due, ok := space[fairKeys[2]].Content.(map[string]float64); ok {
		assert.ElementsMatch(t, s.queue, slices.Collect(maps.Keys(due)), "who has a score")
	}
	if alive, ok := space[fairKeys[4]].Content.(map[string]float64); ok || len(list(fairKeys[3])) > 0 {
		assert.Subset(t, slices.Collect(maps.Keys(alive)), s.ours, "who is alive")
	}
	assert.Equal(t, s.messages, messages.Drain(t))

	// Whatever a user has no right to, nobody is told that it has the lock who does not have it.
	for command := range inside {
		if strings.Contains(command, "|") || slices.Contains([]string{"eval", "acl", "auth"}, command) {
			continue
		}
		srv.Do(t, "FLUSHALL")
		prepared.prepare(t, srv)
		_, _ = s.do(t, srv, "+@all", "&*", "-"+command)
		has := holder(t, srv.Keyspace(t))
		for _, m := range messages.Drain(t) {
			if owner, granted := strings.CutSuffix(m.Payload, " 0"); granted {
				assert.Equal(t, has, owner, "without %s", command)
			}
		}
	}
}

// do makes the call as a user with these rights.
func (s fairStep) do(t *testing.T, srv *redistest.Server, rights ...string) (any, error) {
	srv.Grant(t, "weak", append([]string{"resetchannels", "~*"}, rights...)...)
	conn, err := redistest.Dial(srv.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do("AUTH", "weak", redistest.Password)
	require.NoError(t, err)
	return conn.Do(eval(s.call)...)
}

// holder is who has the lock, which expires.
func holder(t *testing.T, space map[string]redistest.Value) string {
	lock, held := space[lockKey]
	if !held {
		return ""
	}
	assert.True(t, lock.Expires)
	return slices.Collect(maps.Keys(lock.Content.(map[string]string)))[0]
}
