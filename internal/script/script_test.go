package script

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

// builder makes commands for a server that is no cluster; it never connects.
func builder(t *testing.T) rueidis.Builder {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"nowhere:0"}, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil,
				net.ErrClosed
		},
	})
	require.ErrorIs(t, err, net.ErrClosed)
	t.Cleanup(client.Close)
	return client.B()
}

func TestACallIsSentAsItWasMade(t *testing.T) {
	s := Load("rlock_release")
	c := NewCall(s).Key("a", "b").Key("c").Arg("x", "").Int(-5).Int(1 << 53).Arg("y")
	defer c.Free()
	rest := []string{"3", "a", "b", "c", "x", "", "-5", "9007199254740992", "y"}
	known, unknown := c.evalsha(builder(t)), c.InFull(builder(t))
	assert.Equal(t, append([]string{"EVALSHA", s.sha}, rest...), known.Commands())
	assert.Equal(t, append([]string{"EVAL", lua.Source("rlock_release")}, rest...), unknown.Commands())
	assert.False(t, known.IsRetryable(), "whether a copy may be sent is not for the client to decide")
	assert.False(t, unknown.IsRetryable())
	assert.Equal(t, "rlock_release", c.Name())
	assert.Len(t, s.sha, 40)
}

func TestTheLastArgumentsAreLeftOutIfTheyAreAsUsual(t *testing.T) {
	usual := []string{"30000", "1", ""}
	for _, c := range []struct{ given, sent []string }{
		{[]string{"30000", "1", ""}, []string{"o"}},
		{[]string{"20000", "1", ""}, []string{"o", "20000"}},
		{[]string{"30000", "2", ""}, []string{"o", "30000", "2"}},
		{[]string{"30000", "1", "age"}, []string{"o", "30000", "1", "age"}},
	} {
		call := NewCall(Load("rlock_acquire")).Key("k").Arg("o").Optional(usual, c.given...)
		assert.Equal(t, c.sent, call.args)
		call.Free()
	}
}

func TestACallThatIsUsedAgainHasNoLeftovers(t *testing.T) {
	first, second := Load("rlock_acquire"), Load("lock_renew")
	cmd := builder(t)
	for range 100 {
		big := NewCall(first)
		for i := range 500 {
			big.Key(strconv.Itoa(i)).Arg("owner")
		}
		keys, args := big.keys[:1], big.args[:1]
		big.Free()
		assert.Empty(t, keys[0], "nothing is kept alive by a free call")
		assert.Empty(t, args[0])

		small := NewCall(second).Key("k").Arg("v")
		command := small.evalsha(cmd)
		assert.Equal(t, []string{"EVALSHA", second.sha, "1", "k", "v"}, command.Commands())
		small.Free()
	}
}

func TestACommandOutlivesItsCall(t *testing.T) {
	c := NewCall(Load("rlock_acquire")).Key("k").Arg("v")
	command := c.evalsha(builder(t)) // still in flight when its caller has returned
	c.Free()
	NewCall(Load("lock_renew")).Key("other").Arg("other")
	assert.Equal(t, []string{"1", "k", "v"}, command.Commands()[2:])
}

func TestAnUnknownScriptIsAMistakeOfThisModule(t *testing.T) {
	assert.Panics(t, func() { Load("no_such_script") })
}

func TestIntegersAreReadFromAnArray(t *testing.T) {
	c := NewCall(Load("rlock_acquire"))
	defer c.Free()
	var room [3]int64
	c.reply = message(t, []any{1, -2, 1 << 53})
	got, err := c.ReadInts(room[:0])
	require.NoError(t, err)
	assert.Equal(t, []int64{1, -2, 1 << 53}, got)
	assert.Same(t, &room[0], &got[0], "the room is used")
	c.reply = message(t, []any{})
	got, err = c.ReadInts(nil)
	require.NoError(t, err)
	assert.Empty(t, got)
	c.reply = message(t, []any{1, "9007199254740993"})
	got, err = c.ReadNumbers(nil)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 9007199254740993}, got)
	c.reply = message(t, 7)
	n, err := c.ReadInt()
	require.NoError(t, err)
	assert.EqualValues(t, 7, n)
}

func TestAReplyOfAnotherShapeIsBroken(t *testing.T) {
	c := NewCall(Load("rlock_acquire"))
	defer c.Free()
	for name, reply := range map[string]any{
		"text": "OK", "integer": 1, "nothing": nil, "error": errors.New("ERR no"),
		"a text in it": []any{1, "2"}, "a word in it": []any{1, "two"}, "an array in it": []any{1, []any{2}},
		"nothing in it": []any{1, nil}, "an error in it": []any{1, errors.New("ERR no")},
	} {
		c.reply = message(t, reply)
		got, err := c.ReadInts(nil)
		assert.Nil(t, got, name)
		assertBroken(t, err)
		if name != "a text in it" {
			c.reply = message(t, reply)
			got, err = c.ReadNumbers(nil)
			assert.Nil(t, got, name)
			assertBroken(t, err)
		}
		if name != "integer" {
			c.reply = message(t, reply)
			_, err = c.ReadInt()
			assertBroken(t, err)
		}
	}
	c.reply = message(t, []any{1})
	_, err := c.ReadInt()
	assertBroken(t, err)
	c.reply = message(t, []any{4, 2})
	err = c.Unexpected()
	assertBroken(t, err)
	assert.EqualError(t, err, "rlock_acquire: unexpected reply [4 2]")
}

func TestATimedReplyThatIsOneNumberIsTheTime(t *testing.T) {
	c := NewCall(Load("rlock_acquire"))
	c.reply = message(t, 1_750_000_000_000)
	head, err := c.readHead(nil)
	assert.NoError(t, err)
	assert.Equal(t, []int64{Granted, 1_750_000_000_000}, head)
	for _, none := range []int{0, -2} {
		c.reply = message(t, none)
		_, err = c.readHead(nil)
		assertBroken(t, err)
	}
}

func assertBroken(t *testing.T, err error) {
	t.Helper()
	assert.Equal(t, Broken, ClassOf(err), "%v", err)
	assert.False(t, IsTemporary(err))
	assert.ErrorContains(t, err, "rlock_acquire: ")
}
