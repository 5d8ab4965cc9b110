package com.acme;

/** A class that is left out of the jar. */
class Missing {}
