package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Errors end up in cron's logs.
func TestErrorsKeepSecrets(t *testing.T) {
	for _, url := range []string{
		"redis://u:se%cret@h", "http://u:secret@h", "redis://u:secret@h/x", "redis://u:sec\x01ret@h", "redis://u:secret@[h",
		"redis://u:/secret@h", "redis://u:12/secret@h", "redis://u:1@2/secret@h",
		"redis://u:?secret@h", "redis://u:#secret@h",
	} {
		t.Setenv(EnvRedis, url)
		_, err := new(Redis).Options()
		require.Equal(t, ExitUsage, CodeOf(err), url)
		require.NotRegexp(t, "secret|se%c|ret@", err.Error())
		require.NotContains(t, new(Redis).Place(), "secret")
	}
}
