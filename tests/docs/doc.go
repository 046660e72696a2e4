// Package docs checks the pages against the code: the tests that they name exist, and they name every log line.
package docs
