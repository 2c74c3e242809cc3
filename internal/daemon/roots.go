package daemon

import _ "golang.org/x/crypto/x509roots/fallback" // the image is FROM scratch and has no CA file
