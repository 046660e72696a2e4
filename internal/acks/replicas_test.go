package acks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/session"
)

// A replica that has gone counts for as long as it may take over, and then those that are left are all.
func TestAReplicaThatHasGoneCountsForAWhile(t *testing.T) {
	info := func(online int) string {
		return "role:master\r\n" + strings.Repeat("slave0:ip=10.0.0.1,state=online\r\n", online) +
			"slave1:ip=10.0.0.2,state=wait_bgsave\r\nmaster_replid:a\r\n"
	}
	var r replicas
	for _, c := range []struct {
		online, wanted int
	}{{3, 3}, {1, 3}} {
		require.False(t, r.see(info(c.online), 0))
		require.Equal(t, c.wanted, r.wanted(session.AllReplicas))
	}
	require.Equal(t, 2, r.wanted(session.MostReplicas))
	require.False(t, r.see(info(1), lately+1))
	require.Equal(t, 1, r.wanted(session.AllReplicas))
	require.True(t, r.see("master_replid:b\r\n", lately+1), "another master says it")
	require.Equal(t, 1, r.wanted(session.AllReplicas), "which nobody has seen with replicas")
}
