package sharing_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/sharing"
)

// A fake client keeps the context of the last call.
type fake struct {
	rueidis.Client
	mode rueidis.ClientMode
	ctx  *context.Context
}

func (f fake) Mode() rueidis.ClientMode { return f.mode }

func (f fake) Do(ctx context.Context, _ rueidis.Completed) (result rueidis.RedisResult) {
	*f.ctx = ctx //nolint:fatcontext // nothing nests
	return result
}

func (f fake) DoMulti(ctx context.Context, _ ...rueidis.Completed) []rueidis.RedisResult {
	*f.ctx = ctx //nolint:fatcontext // nothing nests
	return nil
}

func (f fake) Nodes() map[string]rueidis.Client { return map[string]rueidis.Client{"node": f} }

func TestWhatTheClientSeesOfAContext(t *testing.T) {
	ended, end := context.WithTimeout(sharing.Own(), time.Hour)
	end()
	users, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	own, stopOwn := context.WithTimeout(sharing.Own(), time.Hour)
	defer stopOwn()
	unending := context.WithoutCancel(t.Context())
	for name, c := range map[string]struct {
		ctx     context.Context
		mode    rueidis.ClientMode
		direct  bool
		unknown bool // which connections are direct
		ends    bool // whether the client sees an end
	}{
		"none that ends":                           {ctx: unending, direct: true},
		"a user's, direct":                         {ctx: users, direct: true, ends: true},
		"a user's, pipelined":                      {ctx: users, ends: true},
		"the session's own, direct":                {ctx: own, direct: true},
		"the session's own, pipelined":             {ctx: own, ends: true},
		"the session's own, of a client unknown":   {ctx: own, unknown: true, ends: true},
		"the session's own, direct in a cluster":   {ctx: own, mode: rueidis.ClientModeCluster, direct: true, ends: true},
		"the session's own that has ended, direct": {ctx: ended, direct: true, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			var seen context.Context
			var directs sharing.Directs
			of := &directs
			if c.unknown {
				of = nil
			}
			client := sharing.Client(fake{mode: c.mode, ctx: &seen}, of)
			for range 2 {
				directs.Begin(false).End()
			}
			if link := directs.Begin(false); !c.direct {
				link.End()
				link.End() // makes no difference
			}
			for _, call := range []func(){
				func() { client.Do(c.ctx, rueidis.Completed{}) },
				func() { client.DoMulti(c.ctx) },
			} {
				call()
				_, dated := seen.Deadline()
				assert.False(t, dated)
				assert.Equal(t, c.ends, seen.Done() != nil)
				assert.Equal(t, c.ctx.Err(), seen.Err())
			}
			client.Nodes()["node"].Do(users, rueidis.Completed{})
			_, dated := seen.Deadline()
			assert.False(t, dated)
		})
	}
}

// What the client sees of the context of a script, which it asks for its deadline when it is about to call directly.
func TestWhatTheClientSeesOfAScriptsContext(t *testing.T) {
	users, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	own, stop := context.WithTimeout(sharing.Own(), time.Hour)
	defer stop()
	var directs sharing.Directs
	known, unknown := sharing.Client(fake{}, &directs), sharing.Client(fake{}, nil)
	bearable := func(ctx context.Context, c rueidis.Client) context.Context {
		_, ctx = sharing.Bearable(ctx, c)
		return ctx
	}
	requirePipelined := func(ctx context.Context) {
		t.Helper()
		_, dated := ctx.Deadline()
		require.False(t, dated)
		require.NotNil(t, ctx.Done())
	}
	requirePipelined(bearable(users, unknown))
	requirePipelined(sharing.Dateless(sharing.Aside(users, unknown)))
	requirePipelined(bearable(users, known))
	early := sharing.Aside(users, known) // before there is a connection
	requirePipelined(early)

	deaf := directs.Begin(false)
	requirePipelined(bearable(users, known))
	deaf.End()
	direct := directs.Begin(true)
	for _, ctx := range []context.Context{bearable(users, known), early} {
		require.Nil(t, direct.Caller())
		deadline, dated := ctx.Deadline()
		require.True(t, dated)
		require.Greater(t, time.Until(deadline), 1000*time.Hour)
		require.NotNil(t, ctx.Done())
		require.Equal(t, users, direct.Caller())
		require.Nil(t, direct.Caller())
	}
	for _, ctx := range []context.Context{bearable(own, known), sharing.Aside(own, known)} {
		require.Nil(t, ctx.Done())
	}
	direct.End()
	requirePipelined(bearable(users, known))
	requirePipelined(early)
}
