package cdk
