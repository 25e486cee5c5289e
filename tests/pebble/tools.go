// Pins Pebble, the ACME directory that tests order certificates from; see the Makefile.
//go:build tools

package pebble

import (
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble"
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv"
)
