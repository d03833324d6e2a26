package ident
