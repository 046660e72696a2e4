package upstream

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/redis/rueidis"
)

// Expected: with RESP3 a connection that listens takes all commands, as with Redis: messages are told from replies.
// What happens: miniredis refuses them, as Redis does with RESP2.
func TestAConnectionWithRESP3ThatListensIsRefusedAllElse(t *testing.T) {
	t.Parallel()
	get := func(addr string) error {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1,
		})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		subscribed := make(chan struct{})
		ctx := rueidis.WithOnSubscriptionHook(t.Context(), func(rueidis.PubSubSubscription) { close(subscribed) })
		go func() {
			_ = client.Receive(ctx, client.B().Subscribe().Channel("x").Build(), func(rueidis.PubSubMessage) {})
		}()
		<-subscribed
		return client.Do(context.Background(), client.B().Set().Key("x").Value("1").Build()).Error()
	}
	assert.NoError(t, get(redistest.Start(t).Addr()), "Redis")
	assert.ErrorContains(t, get(miniredis.RunT(t).Addr()), "Can't execute 'set'", "it is mended")
}
